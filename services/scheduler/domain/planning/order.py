"""Whose turn it is: one cycle's walk through the queue.

**Priority with age.** A gang's level is its priority plus one for every `AGEING` that its lane has waited. Higher
levels go first, without a limit, so that whoever waits comes first in the end, whatever is submitted meanwhile.

**Fair share.** Among gangs of one level, the project goes first whose dominant share of the pool (the largest of its
shares of cores, memory and GPUs) would be the smallest, the gang itself counted in; within a project the user likewise;
within a user the earlier submission. A `fifo` pool knows no shares: there the earlier submission goes first.

**How.** The walk looks at heads of lanes only, in heaps by project and user. A turn's key is reckoned again only where
it may have changed: the source that it came from has moved. Shares only grow within a cycle, so the top of a heap whose
key is still right is the least; one whose key has grown is put back. A lane whose head does not fit is left at once,
since the rest of it would not fit either: a cycle costs by lanes, not by gangs.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from services.scheduler.domain.gang import Gang, Pool, QueuePolicy
from services.scheduler.domain.planning.usage import Amounts, Usage
from services.scheduler.domain.planning.waiting import Lane, Pools, Queue

_PARTS: Final = 1_000_000_000

Totals = tuple[int, int, int]
Key = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shares:
    """How large a part of its pools somebody would hold, in billionths."""

    usage: Usage
    pools: Mapping[str, Pool]
    total: Callable[[str], Totals]

    def shared(self, asked: Mapping[str, Amounts]) -> dict[str, tuple[Amounts, Totals]]:
        """What is asked for, and what there is, in those pools that are shared fairly."""
        fair = (pool for pool in asked if pool in self.pools and self.pools[pool].policy is QueuePolicy.BACKFILL)
        return {pool: (asked[pool], self.total(pool)) for pool in fair}

    def dominant(self, shared: Mapping[str, tuple[Amounts, Totals]], *who: str) -> int:
        """The dominant share with what is asked for counted in; nothing where nobody shares."""
        most = 0
        for pool, (asked, total) in shared.items():
            held = self.usage.held(pool, *who)
            for resource, there in enumerate(total):
                share = (held[resource] + asked[resource]) * _PARTS // there if there else 0
                most = max(most, share)  # called for every gang; `max` takes thrice as long
        return most


# --- one cycle's walk


@dataclass(slots=True)
class _Moves:
    """How often somebody had a turn."""

    count: int = 0


class _Cursor:
    """How far a cycle has come in a lane, and whose moves these are: the user's and the project's."""

    __slots__ = ("_shared", "_shares", "lane", "level", "moves", "next")

    def __init__(self, lane: Lane, level: int, moves: tuple[_Moves, _Moves], shares: Shares) -> None:
        self.lane = lane
        self.level = level
        self.moves = moves
        self.next = 0
        self._shares = shares
        self._shared: Mapping[str, tuple[Amounts, Totals]] | None = None

    @property
    def shared(self) -> Mapping[str, tuple[Amounts, Totals]]:
        """What it asks for, and what there is, where that is shared fairly."""
        if self._shared is None:
            self._shared = self._shares.shared(self.lane.asked)
        return self._shared

    def head(self, without: frozenset[str]) -> Gang | None:
        gangs = self.lane.gangs
        while self.next < len(gangs) and gangs[self.next].job in without:
            self.next += 1
        return gangs[self.next] if self.next < len(gangs) else None


@dataclass(frozen=True, slots=True)
class Turn:
    """A gang that may be next, and what it asks for by pool."""

    gang: Gang
    cursor: _Cursor

    @property
    def shape(self) -> int:
        """Number of its shape."""
        return self.cursor.lane.shape

    @property
    def asked(self) -> Mapping[str, Amounts]:
        return self.cursor.lane.asked


Best = tuple[Key, Turn]


class _Source(Protocol):
    """Something that has turns: a lane, a user, a project. `moved` grows whenever its best turn may be another."""

    @property
    def moved(self) -> int: ...

    def best(self) -> Best | None:
        """Its best turn, by a key to compare with those of its like."""
        ...


class _Heap:
    """Sources by the key of their best turn, which only grows while a source is not at the top."""

    def __init__(self, sources: Iterable[_Source], hopeless: AbstractSet[int]) -> None:
        self._hopeless = hopeless
        self._entries: list[tuple[Key, int, int, Turn | None, _Source]] = [
            ((), number, -1, None, source) for number, source in enumerate(sources)
        ]

    def best(self) -> Best | None:
        """The turn with the least key."""
        entries = self._entries
        while entries:
            key, number, moved, turn, source = entries[0]
            if turn is not None and moved == source.moved and turn.shape not in self._hopeless:
                return key, turn
            found = source.best()
            if found is None:
                heapq.heappop(entries)
            else:
                heapq.heapreplace(entries, (found[0], number, source.moved, found[1], source))
        return None


class _LaneTurns:
    def __init__(self, walk: Walk, cursor: _Cursor) -> None:
        self._walk = walk
        self._cursor = cursor

    @property
    def moved(self) -> int:
        return self._cursor.next

    def best(self) -> Best | None:
        if self._cursor.lane.shape in self._walk.hopeless:
            return None
        gang = self._cursor.head(self._walk.without)
        return ((-self._cursor.level, gang.sequence), Turn(gang, self._cursor)) if gang else None


class _UserTurns:
    def __init__(self, walk: Walk, who: tuple[str, str], moves: _Moves, lanes: Iterable[_LaneTurns]) -> None:
        self._walk = walk
        self._who = who
        self._moves = moves
        self._lanes = _Heap(lanes, walk.hopeless)

    @property
    def moved(self) -> int:
        return self._moves.count

    def best(self) -> Best | None:
        found = self._lanes.best()
        if found is None:
            return None
        (level, sequence), turn = found
        return (level, self._walk.shares.dominant(turn.cursor.shared, *self._who), sequence), turn


class _ProjectTurns:
    def __init__(self, walk: Walk, project: str, moves: _Moves, users: Iterable[_UserTurns]) -> None:
        self._walk = walk
        self._project = project
        self._moves = moves
        self._users = _Heap(users, walk.hopeless)

    @property
    def moved(self) -> int:
        return self._moves.count

    def best(self) -> Best | None:
        found = self._users.best()
        if found is None:
            return None
        (level, _, sequence), turn = found
        return (level, self._walk.shares.dominant(turn.cursor.shared, self._project), sequence), turn


class Walk:
    """The gangs of a queue one after the other, each chosen by what those before it were given."""

    def __init__(self, queue: Queue, shares: Shares, now: datetime, without: frozenset[str] = frozenset()) -> None:
        self.shares = shares
        self.without = without
        # Shapes that have no place any more in this cycle, whoever asks.
        self.hopeless: set[int] = set()
        self._moves: defaultdict[tuple[str, ...], _Moves] = defaultdict(_Moves)
        users: dict[tuple[Pools, str], list[_UserTurns]] = {}
        for (pools, project, owner), lanes in queue.lines.items():
            line = self._line(project, owner, lanes.values(), now)
            users.setdefault((pools, project), []).append(line)
        projects = (
            _ProjectTurns(self, project, self._moves[(project,)], lines) for (_, project), lines in users.items()
        )
        self._projects = _Heap(projects, self.hopeless)

    def _line(self, project: str, owner: str, lanes: Iterable[Lane], now: datetime) -> _UserTurns:
        user, whole = self._moves[project, owner], self._moves[(project,)]
        cursors = (_Cursor(lane, lane.level(now), (user, whole), self.shares) for lane in lanes)
        return _UserTurns(self, (project, owner), user, (_LaneTurns(self, cursor) for cursor in cursors))

    def next(self) -> Turn | None:
        """Whose turn it is; `advance` or `leave_lane` goes on."""
        found = self._projects.best()
        return found[1] if found else None

    def advance(self, turn: Turn) -> None:
        """Its gang was given a place, and that is counted: let its lane go on."""
        turn.cursor.next += 1
        self._moved(turn.cursor)

    def leave_lane(self, turn: Turn) -> None:
        """Neither its gang nor anybody behind it in its lane can have a place."""
        turn.cursor.next = len(turn.cursor.lane.gangs)
        self._moved(turn.cursor)

    def _moved(self, cursor: _Cursor) -> None:
        for moves in cursor.moves:
            moves.count += 1
