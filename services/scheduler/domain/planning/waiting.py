"""The gangs that wait for a place, sorted into lanes as they come and go, so that a cycle need not sort them.

Gangs of one user in the same pools with the same priority and shape are one lane, in the order of their submission. The
one of them that has waited the longest gives the lane its age.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final

from services.scheduler.domain.gang import Gang
from services.scheduler.domain.planning.usage import Amounts, amounts_by_pool

AGEING: Final = timedelta(hours=1)

Pools = tuple[str, ...]
_sequence = attrgetter("sequence")


@dataclass(slots=True)
class Lane:
    """Gangs of one user, priority and shape, the earliest submission first. Lanes of equal shape have its number."""

    shape: int
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
        self._shapes: dict[object, int] = {}
        self._lanes_of: Counter[object] = Counter()
        self._numbers = itertools.count()
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
            self._lanes_of[gang.shape] += 1
            number = self._shapes.setdefault(gang.shape, next(self._numbers))
            lanes[lane] = Lane(number, gang.priority, amounts_by_pool(gang.roles))
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
            self._forget_shape(gang.shape)
        if not lanes:
            del self._lanes[line]

    def _forget_shape(self, shape: object) -> None:
        self._lanes_of[shape] -= 1
        if not self._lanes_of[shape]:
            del self._lanes_of[shape], self._shapes[shape]

    @property
    def lines(self) -> Mapping[LineKey, Mapping[LaneKey, Lane]]:
        """Lanes by pools, project and user."""
        return self._lanes
