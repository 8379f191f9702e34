"""One cycle: who starts now and where, given a snapshot and the moment.

Gangs are looked at one after the other, as `order` has it. One that fits gets its place at once, and the next sees what
is left; one that does not fit waits, and in a `backfill` pool others may pass it, while in a `fifo` pool nobody behind
it starts in that pool. One that would go over its project's quota waits and blocks nobody. The same snapshot gives the
same plan in whatever order its parts are listed, and is not changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from services.scheduler.domain.gang import Gang, Pool, QueuePolicy, in_queue_order
from services.scheduler.domain.ledger import Rooms, Seat
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.fit import Place, fit, take
from services.scheduler.domain.planning.layout import Layout
from services.scheduler.domain.planning.order import Queue, Shares, Usage, Walk
from services.scheduler.domain.quotas import Quota, quota_blockers


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a plan depends on; `without` are jobs whose gangs are left out of it."""

    columns: Columns
    queue: Queue
    usage: Usage = field(default_factory=Usage)
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    without: frozenset[str] = frozenset()

    @property
    def pools(self) -> Mapping[str, Pool]:
        """Pools by name."""
        return self.columns.layout.pools

    @property
    def rooms(self) -> Rooms:
        """What is free, by node id."""
        return Rooms(self.columns)

    @property
    def gangs(self) -> tuple[Gang, ...]:
        """Waiting gangs by priority and submission."""
        return in_queue_order(gang for gang in self.queue if gang.job not in self.without)


@dataclass(frozen=True, slots=True)
class Start:
    """A gang that starts now, and where every replica goes."""

    gang: Gang
    places: tuple[Place, ...]
    layout: Layout = field(repr=False, compare=False)

    @property
    def seats(self) -> tuple[Seat, ...]:
        """The places, replica by replica."""
        return tuple(seat for place in self.places for seat in _seats(place, self.layout))


@dataclass(frozen=True, slots=True)
class Plan:
    """What one cycle decides."""

    starts: tuple[Start, ...] = ()


class _Cycle:
    """The state of one cycle while it is being decided."""

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self._snapshot = snapshot
        self._pools = snapshot.columns.layout.pools
        self._free = snapshot.columns.copy()
        self._usage = snapshot.usage.copy()
        shares = Shares(self._usage, self._pools, snapshot.columns.layout.total)
        self._walk = Walk(snapshot.queue, shares, now, snapshot.without)
        self._starts: list[Start] = []
        self._blocked: set[str] = set()
        self._failed: set[object] = set()
        self._failed_mixed: set[object] = set()

    def run(self) -> Plan:
        while (gang := self._walk.peek()) is not None:
            places = self._place(gang)
            if places is None:
                self._walk.leave_lane()
            else:
                self._start(gang, places)
                self._walk.advance()
        return Plan(tuple(self._starts))

    def _place(self, gang: Gang) -> tuple[Place, ...] | None:
        if self._blocked.intersection(gang.pools):
            self._block(gang)
            return None
        if quota_blockers(gang, self._snapshot.quotas, self._usage.used):
            return None
        failed = self._failed if len(gang.roles) == 1 else self._failed_mixed
        places = None if gang.shape in failed else fit(gang, self._free)
        if places is None:
            failed.add(gang.shape)
            self._block(gang)
        return places

    def _block(self, gang: Gang) -> None:
        """Nobody behind it starts in those of its pools that are `fifo`."""
        self._blocked |= {name for name in gang.pools if self._is_fifo(name)}

    def _is_fifo(self, pool: str) -> bool:
        return pool in self._pools and self._pools[pool].policy is QueuePolicy.FIFO

    def _start(self, gang: Gang, places: tuple[Place, ...]) -> None:
        take(places, self._free)
        self._usage.add(gang.project, gang.owner, gang.roles)
        self._starts.append(Start(gang, places, self._free.layout))
        # With less room roles may be packed in another order, so that a gang of several may fit where it did not.
        self._failed_mixed.clear()


def _seats(place: Place, layout: Layout) -> Iterator[Seat]:
    index, role = 0, place.role
    for row, count, devices in zip(place.rows.tolist(), place.counts.tolist(), place.devices.tolist(), strict=True):
        ids = layout.device_ids(row, devices) if devices else ()
        node, each = layout.nodes[row].id, role.request.gpus
        for number in range(count):
            yield Seat(role.name, index, node, role.request, ids[number * each : (number + 1) * each])
            index += 1


def plan(snapshot: Snapshot, now: datetime) -> Plan:
    """The decisions of one cycle, starts in the order in which they were made."""
    return _Cycle(snapshot, now).run()
