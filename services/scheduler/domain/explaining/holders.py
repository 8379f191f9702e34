"""Who holds what a waiting gang lacks: the gangs on the nodes of its pool, those that hold the most first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from services.scheduler.domain.planning.holding import Holding
from services.scheduler.domain.planning.layout import Flags
from services.scheduler.domain.planning.plan import Snapshot

SHOWN_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that the asker may know, how much of the resource it holds there, and until when at the latest."""

    job: str
    amount: int
    ends_by: datetime | None


@dataclass(frozen=True, slots=True)
class Held:
    """What is held of one resource in one pool; `others` is what jobs hold that are not named."""

    resource: str
    pool: str
    holders: tuple[Holder, ...]
    others: int


def held_in(snapshot: Snapshot, pool: str, resource: str, may_know: Callable[[str], bool]) -> Held:
    """Who holds a resource (`cpu`, `memory`, `gpu`, or `replicas` of whatever size) in a pool."""
    members = snapshot.columns.layout.members(pool)
    amounts = [
        (_amount(snapshot.holding(gang), members, resource), running) for gang, running in snapshot.running.items()
    ]
    named = sorted(
        (
            Holder(running.job, amount, running.ends_by)
            for amount, running in amounts
            if amount and may_know(running.job)
        ),
        key=lambda holder: (-holder.amount, holder.job),
    )[:SHOWN_MAX]
    others = sum(amount for amount, _ in amounts) - sum(holder.amount for holder in named)
    return Held(resource, pool, tuple(named), others)


def _amount(held: Holding, members: Flags, resource: str) -> int:
    here = members[held.rows]
    match resource:
        case "memory":
            return int(held.memory_bytes[here].sum())
        case "gpu":
            return int(np.bitwise_count(held.devices[here]).sum())
    return int(held.cpu_m[here].sum())
