"""Who holds what a waiting gang lacks: the gangs on the nodes of its pool, those that hold the most first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from services.scheduler.domain.planning.holding import Holding
from services.scheduler.domain.planning.layout import Ints
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
    """Who holds a resource (`cpu`, `memory`, `gpu`, `pods`, or `replicas` of whatever size) in a pool."""
    running = tuple(snapshot.running.values())
    amounts = list(zip(_amounts(snapshot, pool, resource), running, strict=True))
    named = sorted(
        (Holder(each.job, amount, each.ends_by) for amount, each in amounts if amount and may_know(each.job)),
        key=lambda holder: (-holder.amount, holder.job),
    )[:SHOWN_MAX]
    others = sum(amount for amount, _ in amounts) - sum(holder.amount for holder in named)
    return Held(resource, pool, tuple(named), others)


def _amounts(snapshot: Snapshot, pool: str, resource: str) -> list[int]:
    """What each running gang holds of the resource on nodes of the pool."""
    held = [snapshot.holding(gang) for gang in snapshot.running]
    if not held:
        return []
    members = snapshot.columns.layout.members(pool)
    here = members[np.concatenate([each.rows for each in held])]
    owners = np.repeat(np.arange(len(held)), [len(each.rows) for each in held])
    amounts = np.zeros(len(held), dtype=np.int64)
    np.add.at(amounts, owners, np.concatenate([_held(each, resource) for each in held]) * here)
    return [int(amount) for amount in amounts]


def _held(held: Holding, resource: str) -> Ints:
    match resource:
        case "memory":
            return held.memory_bytes
        case "gpu":
            return np.bitwise_count(held.devices).astype(np.int64)
        case "pods":
            return held.slots
    return held.cpu_m
