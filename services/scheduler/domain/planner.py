"""The planner: a snapshot of rooms, pools and waiting gangs goes in, the gangs that start now come out.

Gangs are looked at in queue order. One that fits gets its seats at once, and the next sees what is left; one that does
not fit waits, and in a `backfill` pool others may pass it, while in a `fifo` pool nobody behind it starts in that
pool. One that would go over its project's quota waits and blocks nobody. The same snapshot gives the same plan in
whatever order its parts are listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.scheduler.domain.fit import Rooms, after, fit
from services.scheduler.domain.gang import Gang, Pool, QueuePolicy, in_queue_order
from services.scheduler.domain.ledger import Seat
from services.scheduler.domain.quotas import Quota, Use, quota_blockers, use_of_gang


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a plan depends on."""

    gangs: tuple[Gang, ...]
    rooms: Rooms
    pools: Mapping[str, Pool]
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    used: Mapping[str, Use] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Start:
    """A gang that starts now, and where every replica goes."""

    gang: Gang
    seats: tuple[Seat, ...]


def plan(snapshot: Snapshot) -> tuple[Start, ...]:
    """The starts of one cycle, in queue order."""
    rooms, starts, used = snapshot.rooms, [], dict(snapshot.used)
    blocked: set[str] = set()
    failed: set[object] = set()
    for gang in in_queue_order(snapshot.gangs):
        if blocked & {role.pool for role in gang.roles}:
            blocked |= _fifo_pools(gang, snapshot.pools)
            continue
        if quota_blockers(gang, snapshot.quotas, used):
            continue
        seats = None if gang.shape in failed else fit(gang, rooms, snapshot.pools)
        if seats is None:
            failed.add(gang.shape)
            blocked |= _fifo_pools(gang, snapshot.pools)
            continue
        starts.append(Start(gang, seats))
        rooms = after(seats, rooms)
        used[gang.project] = used.get(gang.project, Use()) + use_of_gang(gang)
        # With less room another order of roles may be tried, so what failed before is tried anew.
        failed.clear()
    return tuple(starts)


def _fifo_pools(gang: Gang, pools: Mapping[str, Pool]) -> set[str]:
    names = {role.pool for role in gang.roles} & pools.keys()
    return {name for name in names if pools[name].policy is QueuePolicy.FIFO}
