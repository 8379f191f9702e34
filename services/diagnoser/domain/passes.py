"""What the passes of a node cover: stages of its devices, ways to other nodes, and gangs that it was in. Pure.

Each holds for `VALID_H` hours, and all of them are void as soon as something is heard of the node. A stage is passed by
each device: a job on CPUs says nothing of a GPU, nor one GPU of another. That two nodes have passed, each with others,
says nothing of the way between them, nor of a gang that was never tested together; so these are kept beside the stages.
A way holds where both of its nodes have it, and from GPU to GPU it is another one than between the machines.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from shared.ids import hashed_id

VALID_H: Final = 24.0
_GANGS_KEPT: Final = 16
_CPUS: Final = "cpus"


@dataclass(slots=True)
class Passes:
    """When each stage of a device, each way, and each gang by its name was passed last."""

    stages: dict[str, datetime] = field(default_factory=dict)
    links: dict[str, datetime] = field(default_factory=dict)
    gangs: dict[str, datetime] = field(default_factory=dict)

    def take_stages(self, stages: Iterable[str], at: datetime) -> None:
        """These stages were passed."""
        self.stages |= dict.fromkeys(stages, at)

    def take_link(self, way: str, at: datetime) -> None:
        """The way was passed; those that do not hold any more are forgotten."""
        self.links = {each: then for each, then in self.links.items() if holds(then, at)} | {way: at}

    def take_gang(self, gang: str, at: datetime) -> None:
        """The whole gang was passed; the last few are remembered."""
        others = {name: then for name, then in self.gangs.items() if name != gang}
        self.gangs = dict([*others.items(), (gang, at)][-_GANGS_KEPT:])

    def covers(self, stages: Iterable[str], now: datetime) -> bool:
        """Whether all these stages were passed lately."""
        return all(holds(self.stages.get(stage), now) for stage in stages)


def stages_of_devices(stages: Iterable[str], devices: Iterable[str]) -> tuple[str, ...]:
    """Each stage with each device that goes through it; without GPUs these are the CPUs."""
    parts = sorted(devices) or [_CPUS]
    return tuple(f"{stage}/{device}" for stage in stages for device in parts)


def way_to(node: str, *, gpu: bool) -> str:
    """The way to the other node, between machines or from GPU to GPU."""
    return f"{node}/gpu" if gpu else node


def holds(passed_at: datetime | None, now: datetime) -> bool:
    """Whether a pass of then still counts."""
    return passed_at is not None and now - passed_at < timedelta(hours=VALID_H)


def gang_name(nodes: Iterable[str], stages: Iterable[str]) -> str:
    """What the gang of these nodes is called that goes through these stages."""
    return hashed_id("g", "+".join(sorted(stages)), *sorted(nodes))
