"""What the passes of a node cover: stages of its own tests, ways to other nodes, and gangs that it was in. Pure.

Each holds for `VALID_H` hours, and all of them are void as soon as something is heard of the node. That two nodes have
passed, each with others, says nothing of the way between them, nor of a gang that was never tested together; so these
are kept beside the stages. A way holds where both of its nodes have it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from shared.ids import hashed_id

VALID_H: Final = 24.0
_GANGS_KEPT: Final = 16


@dataclass(slots=True)
class Passes:
    """When each stage, each way by the other node's id, and each gang by its name was passed last."""

    stages: dict[str, datetime] = field(default_factory=dict)
    links: dict[str, datetime] = field(default_factory=dict)
    gangs: dict[str, datetime] = field(default_factory=dict)

    def take_stages(self, stages: Iterable[str], at: datetime) -> None:
        """These stages were passed."""
        self.stages |= dict.fromkeys(stages, at)

    def take_link(self, other: str, at: datetime) -> None:
        """The way to the other node was passed; those that do not hold any more are forgotten."""
        self.links = {node: then for node, then in self.links.items() if holds(then, at)} | {other: at}

    def take_gang(self, gang: str, at: datetime) -> None:
        """The whole gang was passed; the last few are remembered."""
        others = {name: then for name, then in self.gangs.items() if name != gang}
        self.gangs = dict([*others.items(), (gang, at)][-_GANGS_KEPT:])

    def covers(self, stages: Iterable[str], now: datetime) -> bool:
        """Whether all these stages were passed lately."""
        return all(holds(self.stages.get(stage), now) for stage in stages)


def holds(passed_at: datetime | None, now: datetime) -> bool:
    """Whether a pass of then still counts."""
    return passed_at is not None and now - passed_at < timedelta(hours=VALID_H)


def gang_name(nodes: Iterable[str], stages: Iterable[str]) -> str:
    """What the gang of these nodes is called that goes through these stages."""
    return hashed_id("g", "+".join(sorted(stages)), *sorted(nodes))
