"""Whose turn it is: the queue of waiting gangs, kept in order while gangs come and go, and one cycle's walk through it.

**Priority with age.** A gang's level is its priority plus one for every `AGEING` that it has waited. Higher levels go
first, without a limit, so that whoever waits becomes the first in the end, whatever is submitted meanwhile.

**Fair share.** Among gangs of one level, the project goes first whose dominant share of the pool (the largest of its
shares of cores, memory and GPUs) would be the smallest, the gang itself counted in; within a project the user likewise;
within a user the earlier submission. A `fifo` pool knows no shares: there the earlier submission goes first.

**How.** Gangs of one user in the same pools with the same priority and shape wait in one *lane*, in the order of their
submission; the one of them that waits the longest gives the lane its age. A cycle looks at heads of lanes only, in
heaps by project and user. Shares only grow within a cycle, so a heap's top whose key is still right is the least; one
whose key has grown is put back. A lane whose head does not fit is left at once, since the rest of it would not fit
either: a cycle costs by lanes, not by gangs.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final, Generic, TypeVar

from services.scheduler.domain.gang import Gang, Pool, QueuePolicy, RoleAsk
from services.scheduler.domain.quotas import Use, use_of

AGEING: Final = timedelta(hours=1)
_PARTS: Final = 1_000_000_000

Pools = tuple[str, ...]
Amounts = tuple[int, int, int]
Key = tuple[int, ...]
_sequence = attrgetter("sequence")


# --- who holds how much


class Usage:
    """Cores, memory and GPUs that projects and their users hold in each pool, and what counts against quotas."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, ...], Amounts] = {}
        self._used: dict[str, Use] = {}

    @property
    def used(self) -> Mapping[str, Use]:
        """What each project holds over all pools."""
        return self._used

    def copy(self) -> Usage:
        """The same, to be changed freely."""
        other = Usage()
        other._held, other._used = dict(self._held), dict(self._used)
        return other

    def add(self, project: str, owner: str, roles: Iterable[RoleAsk]) -> None:
        """Count what these roles hold."""
        asked = tuple(roles)
        self._shift(project, owner, asked, 1)
        self._used[project] = self._used.get(project, Use()) + use_of(asked)

    def remove(self, project: str, owner: str, roles: Iterable[RoleAsk]) -> None:
        """Count it no longer."""
        asked = tuple(roles)
        self._shift(project, owner, asked, -1)
        self._used[project] -= use_of(asked)

    def held(self, *who: str) -> Amounts:
        """What is held in a pool by a project, or by one of its users."""
        return self._held.get(who, (0, 0, 0))

    def _shift(self, project: str, owner: str, roles: Iterable[RoleAsk], sign: int) -> None:
        for pool, amounts in amounts_by_pool(roles).items():
            for who in ((pool, project), (pool, project, owner)):
                self._put(who, _plus(self.held(*who), amounts, sign))

    def _put(self, who: tuple[str, ...], amounts: Amounts) -> None:
        if any(amounts):
            self._held[who] = amounts
        else:
            self._held.pop(who, None)


def amounts_by_pool(roles: Iterable[RoleAsk]) -> dict[str, Amounts]:
    """What the roles ask for in each pool."""
    asked: dict[str, Amounts] = {}
    for role in roles:
        request, count = role.request, role.replicas
        amounts = (request.cpu_m * count, request.memory_bytes * count, request.gpus * count)
        asked[role.pool] = _plus(asked.get(role.pool, (0, 0, 0)), amounts)
    return asked


def _plus(one: Amounts, other: Amounts, sign: int = 1) -> Amounts:
    return one[0] + sign * other[0], one[1] + sign * other[1], one[2] + sign * other[2]


# --- the queue


@dataclass(slots=True)
class Lane:
    """Gangs of one user, priority and shape, the earliest submission first."""

    priority: int
    asked: dict[str, Amounts]
    gangs: list[Gang] = field(default_factory=list)
    since: list[datetime] = field(default_factory=list)

    def add(self, gang: Gang) -> None:
        insort(self.gangs, gang, key=_sequence)
        if gang.since is not None:
            insort(self.since, gang.since)

    def remove(self, gang: Gang) -> None:
        del self.gangs[bisect_left(self.gangs, gang.sequence, key=_sequence)]
        if gang.since is not None:
            del self.since[bisect_left(self.since, gang.since)]

    def level(self, now: datetime) -> int:
        """Priority with age."""
        return self.priority + (max(now - self.since[0], timedelta()) // AGEING if self.since else 0)


LineKey = tuple[Pools, str, str]
LaneKey = tuple[object, ...]


class Queue:
    """All gangs that wait for a place."""

    def __init__(self, gangs: Iterable[Gang] = ()) -> None:
        self._lanes: dict[LineKey, dict[LaneKey, Lane]] = {}
        self._keys: dict[str, tuple[LineKey, LaneKey, Gang]] = {}
        for gang in gangs:
            self.add(gang)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Gang]:
        return (gang for _, _, gang in self._keys.values())

    def get(self, job: str) -> Gang | None:
        """The gang of this job, where it waits."""
        found = self._keys.get(job)
        return found[2] if found else None

    def add(self, gang: Gang) -> None:
        """Let a gang wait; one of the same job gives way to it."""
        if self.get(gang.job) == gang:
            return
        self.remove(gang.job)
        line, lane = (gang.pools, gang.project, gang.owner), (gang.priority, gang.shape)
        lanes = self._lanes.setdefault(line, {})
        if lane not in lanes:
            lanes[lane] = Lane(gang.priority, amounts_by_pool(gang.roles))
        lanes[lane].add(gang)
        self._keys[gang.job] = line, lane, gang

    def remove(self, job: str) -> None:
        """Let the job's gang wait no longer, if it did."""
        found = self._keys.pop(job, None)
        if found is None:
            return
        line, lane, gang = found
        lanes = self._lanes[line]
        lanes[lane].remove(gang)
        if not lanes[lane].gangs:
            del lanes[lane]
        if not lanes:
            del self._lanes[line]

    @property
    def lines(self) -> Mapping[LineKey, Mapping[LaneKey, Lane]]:
        """Lanes by pools, project and user."""
        return self._lanes


# --- one cycle's walk


@dataclass(frozen=True, slots=True)
class Shares:
    """How large a part of its pools somebody would hold, in billionths."""

    usage: Usage
    pools: Mapping[str, Pool]
    total: Callable[[str], Amounts]

    def with_asked(self, asked: Mapping[str, Amounts], *who: str) -> int:
        """The dominant share with what is asked for counted in; nothing where nobody shares."""
        shares = (self._share(pool, amounts, who) for pool, amounts in asked.items() if self._is_shared(pool))
        return max(shares, default=0)

    def _is_shared(self, pool: str) -> bool:
        return pool in self.pools and self.pools[pool].policy is QueuePolicy.BACKFILL

    def _share(self, pool: str, asked: Amounts, who: tuple[str, ...]) -> int:
        held, total = self.usage.held(pool, *who), self.total(pool)
        return max((held[n] + asked[n]) * _PARTS // total[n] if total[n] else 0 for n in range(3))


Item = TypeVar("Item")


class _Heap(Generic[Item]):
    """Items by a key that only grows while they are not at the top."""

    def __init__(self, items: Iterable[Item], key: Callable[[Item], Key | None]) -> None:
        self._key = key
        keyed = ((key(item), number, item) for number, item in enumerate(items))
        self._entries = [(own, number, item) for own, number, item in keyed if own is not None]
        heapq.heapify(self._entries)

    def top(self) -> tuple[Key, Item] | None:
        """The item with the least key."""
        while self._entries:
            known, number, item = self._entries[0]
            own = self._key(item)
            if own == known:
                return known, item
            if own is None:
                heapq.heappop(self._entries)
            else:
                heapq.heapreplace(self._entries, (own, number, item))
        return None


@dataclass(slots=True)
class _Cursor:
    """How far a cycle has come in a lane."""

    lane: Lane
    level: int
    next: int = 0

    @property
    def head(self) -> Gang | None:
        return self.lane.gangs[self.next] if self.next < len(self.lane.gangs) else None


class Walk:
    """The gangs of a queue one after the other, each chosen by what those before it were given."""

    def __init__(self, queue: Queue, shares: Shares, now: datetime, without: Iterable[str] = ()) -> None:
        self._shares = shares
        self._now = now
        self._without = frozenset(without)
        projects: dict[tuple[Pools, str], list[_Heap[_Cursor]]] = {}
        for (pools, project, _), lanes in queue.lines.items():
            cursors = (_Cursor(lane, lane.level(now)) for lane in lanes.values())
            projects.setdefault((pools, project), []).append(_Heap(cursors, self._lane_key))
        users = (_Heap(lines, self._user_key) for lines in projects.values())
        self._projects = _Heap(users, self._project_key)

    def peek(self) -> Gang | None:
        """Whose turn it is."""
        at = self._at()
        return at.head if at else None

    def advance(self) -> None:
        """It was given a place, or left out: let its lane go on."""
        at = self._at()
        if at is not None:
            at.next += 1

    def leave_lane(self) -> None:
        """Neither it nor anybody behind it in its lane can have a place."""
        at = self._at()
        if at is not None:
            at.next = len(at.lane.gangs)

    def _at(self) -> _Cursor | None:
        project = self._projects.top()
        user = project[1].top() if project else None
        lane = user[1].top() if user else None
        return lane[1] if lane else None

    def _lane_key(self, cursor: _Cursor) -> Key | None:
        while cursor.head is not None and cursor.head.job in self._without:
            cursor.next += 1
        return (-cursor.level, cursor.head.sequence) if cursor.head else None

    def _user_key(self, lanes: _Heap[_Cursor]) -> Key | None:
        top = lanes.top()
        if top is None:
            return None
        (level, sequence), cursor = top
        gang = cursor.head
        share = self._shares.with_asked(cursor.lane.asked, gang.project, gang.owner) if gang else 0
        return level, share, sequence

    def _project_key(self, users: _Heap[_Heap[_Cursor]]) -> Key | None:
        top = users.top()
        lane = top[1].top() if top else None
        if top is None or lane is None or lane[1].head is None:
            return None
        level, _, sequence = top[0]
        return level, self._shares.with_asked(lane[1].lane.asked, lane[1].head.project), sequence
