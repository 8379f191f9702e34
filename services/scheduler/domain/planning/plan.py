"""One cycle: who starts now and where, given a snapshot and the moment.

Gangs are looked at one after the other, as `order` has it. One that fits gets its place at once, and the next sees what
is left; one that does not fit waits, and in a `backfill` pool others may pass it, while in a `fifo` pool nobody behind
it starts in that pool. One that would go over its project's quota waits and blocks nobody. The same snapshot gives the
same plan in whatever order its parts are listed, and is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from services.scheduler.domain.gang import Gang, Pool, QueuePolicy, in_queue_order
from services.scheduler.domain.ledger import Rooms, Seat
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.fit import Place, fit, take
from services.scheduler.domain.planning.holding import Holding, holding, holding_of
from services.scheduler.domain.planning.layout import Layout
from services.scheduler.domain.planning.order import Shares, Turn, Walk
from services.scheduler.domain.planning.preempt import Eviction, preempt
from services.scheduler.domain.planning.reserve import Reservation, reserve
from services.scheduler.domain.planning.running import Running
from services.scheduler.domain.planning.space import Space
from services.scheduler.domain.planning.tenancy import Tenancy
from services.scheduler.domain.planning.usage import Usage
from services.scheduler.domain.planning.waiting import Queue
from services.scheduler.domain.quotas import Quota, quota_blockers


def _nothing(_gang: str) -> Holding:
    return holding(())


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a plan depends on; `without` are jobs whose gangs are left out of it.

    `running` has the gangs that hold places, by id; `holding` and `tenancy` say what they hold. When jobs were
    `expected` to start, so far, only says where to begin looking.
    """

    columns: Columns
    queue: Queue
    usage: Usage = field(default_factory=Usage)
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    without: frozenset[str] = frozenset()
    running: Mapping[str, Running] = field(default_factory=dict)
    holding: Callable[[str], Holding] = _nothing
    tenancy: Tenancy = field(default_factory=Tenancy)
    expected: Mapping[str, datetime] = field(default_factory=dict)

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

    def frozen(self) -> Snapshot:
        """The same, good also after the world that it was taken of has changed, and in another thread."""
        held = {gang: self.holding(gang) for gang in self.running}
        return replace(
            self,
            columns=self.columns.part(0, len(self.columns)),
            queue=Queue(gang for gang in self.queue if gang.job not in self.without),
            usage=self.usage.copy(),
            running=dict(self.running),
            holding=held.__getitem__,
            tenancy=self.tenancy.copy(),
            expected=dict(self.expected),
        )


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
    evictions: tuple[Eviction, ...] = ()
    reservations: tuple[Reservation, ...] = ()


class _Cycle:
    """The state of one cycle while it is being decided.

    `_now` is what is free. `_spare` is what is left beside the reservations once they begin, and `_beside` the least of
    the two: where a gang goes that would still be there then. Both exist from the first reservation on.
    """

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self._snapshot = snapshot
        self._at = now
        self._pools = snapshot.pools
        self._now = Space(snapshot.columns.copy())
        self._spare: Columns | None = None
        self._beside = self._now
        self._usage = snapshot.usage.copy()
        shares = Shares(self._usage, self._pools, snapshot.columns.layout.total)
        self._walk = Walk(snapshot.queue, shares, now, snapshot.without)
        self._starts: list[Start] = []
        self._evictions: list[Eviction] = []
        self._reservations: list[Reservation] = []
        self._blocked: set[str] = set()
        self._headed: set[str] = set()
        self._tenancy: Tenancy | None = None
        self._counted = 0

    def run(self) -> Plan:
        while (turn := self._walk.next()) is not None:
            places = self._place(turn)
            if places is None:
                self._walk.leave_lane(turn)
            else:
                self._start(turn, places)
                self._walk.advance(turn)
        return Plan(tuple(self._starts), tuple(self._evictions), tuple(self._reservations))

    def _place(self, turn: Turn) -> tuple[Place, ...] | None:
        gang = turn.gang
        if self._blocked and self._blocked.intersection(gang.pools):
            self._block(gang)
            return None
        quotas = self._snapshot.quotas
        if quotas and quota_blockers(gang, quotas, self._usage.used):
            return None
        places = self._space_for(gang).place(gang)
        if places is None:
            self._block(gang)
            self._keep_a_place(gang)
            if len(gang.roles) == 1 and self._headed.issuperset(gang.pools):
                self._walk.hopeless.add(turn.shape)
        return places

    def _start(self, turn: Turn, places: tuple[Place, ...]) -> None:
        gang = turn.gang
        self._now.take(places)
        self._usage.shift(gang.project, gang.owner, turn.asked, 1)
        self._starts.append(Start(gang, places, self._now.columns.layout))
        if self._spare is not None:
            if not self._is_gone_in_time(gang):
                take(places, self._spare)
            self._beside.cap(places, self._now.columns, self._spare)

    # --- those that wait

    def _block(self, gang: Gang) -> None:
        """Nobody behind it starts in those of its pools that are `fifo`."""
        self._blocked |= {name for name in gang.pools if self._policy(name) is QueuePolicy.FIFO}

    def _policy(self, pool: str) -> QueuePolicy | None:
        return self._pools[pool].policy if pool in self._pools else None

    def _keep_a_place(self, gang: Gang) -> None:
        """The first that does not fit in a pool has others stopped where it may; in a `backfill` pool, a place kept."""
        pools = set(gang.pools)
        if pools & self._headed or fit(gang, Columns.empty(self._now.columns.layout)) is None:
            return
        self._headed |= pools
        evicted = self._preempt(gang)
        self._evictions += evicted
        if all(self._policy(name) is QueuePolicy.FIFO for name in pools):
            return
        tenancy = self._tenancy_with(evicted)
        kept = reserve(gang, self._left(), tenancy, self._at, self._snapshot.expected.get(gang.job))
        if kept is not None:
            reservation, left = kept
            self._reservations.append(reservation)
            self._keep(left)

    def _preempt(self, gang: Gang) -> tuple[Eviction, ...]:
        if not all(pool in self._pools and self._pools[pool].preemption for pool in gang.pools):
            return ()
        running = [(each, self._snapshot.holding(each.gang)) for each in self._snapshot.running.values()]
        return preempt(gang, self._beside.columns, running, self._pools, self._at)

    def _left(self) -> Columns:
        """What is free now, less what is kept for others."""
        left = self._now.columns.copy()
        for reservation in self._reservations:
            take(reservation.places, left)
        return left

    def _keep(self, left: Columns) -> None:
        if self._spare is None:
            self._spare = left
        else:
            self._spare.lower(slice(None), left)
        self._beside = Space(self._now.columns.copy())
        self._beside.columns.lower(slice(None), self._spare)

    def _space_for(self, gang: Gang) -> Space:
        return self._now if self._spare is None or self._is_gone_in_time(gang) else self._beside

    def _is_gone_in_time(self, gang: Gang) -> bool:
        """Whether it is in nobody's way: it ends before any reservation of nodes that it might get begins."""
        rivals = [each for each in self._reservations if self._meet(each.gang.pools, gang.pools)]
        if not rivals:
            return True
        ends_by = self._ends_by(gang)
        return all(each.at is not None and ends_by is not None and ends_by <= each.at for each in rivals)

    def _meet(self, some: Iterable[str], others: Iterable[str]) -> bool:
        """Whether the pools have a node in common."""
        if set(some) & set(others):
            return True
        layout = self._now.columns.layout
        pairs = ((layout.members(one), layout.members(other)) for one in some for other in others)
        return any(bool((one & other).any()) for one, other in pairs)

    def _tenancy_with(self, evicted: tuple[Eviction, ...]) -> Tenancy:
        """Who holds what and until when, with those that start now and those that are stopped now."""
        tenancy = self._snapshot.tenancy.copy() if self._tenancy is None else self._tenancy
        for start in self._starts[self._counted :]:
            tenancy.hold(start.gang.job, holding_of(start.places), self._ends_by(start.gang))
        for each in evicted:
            tenancy.renew(each.victim.gang, self._at + timedelta(seconds=each.victim.grace_s))
        self._tenancy, self._counted = tenancy, len(self._starts)
        return tenancy

    def _ends_by(self, gang: Gang) -> datetime | None:
        return self._at + timedelta(seconds=gang.longest_s) if gang.longest_s is not None else None


def _seats(place: Place, layout: Layout) -> Iterator[Seat]:
    index, name, request = 0, place.role.name, place.role.request
    for row, count, devices in zip(place.rows, place.counts, place.devices, strict=True):
        node, ids, each = layout.nodes[row].id, layout.device_ids(row, devices) if devices else (), request.gpus
        for first in range(0, count * each, each) if each else (0,) * count:
            yield Seat(name, index, node, request, ids[first : first + each])
            index += 1


def plan(snapshot: Snapshot, now: datetime) -> Plan:
    """The decisions of one cycle, starts in the order in which they were made."""
    return _Cycle(snapshot, now).run()
