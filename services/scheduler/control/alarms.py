"""When to look at which job again: the latest wish of each job counts, and the earliest of all is next."""

from __future__ import annotations

import heapq
from datetime import datetime


class Alarms:
    """A time for each job that has one."""

    def __init__(self) -> None:
        self._times: dict[str, datetime] = {}
        self._queue: list[tuple[datetime, str]] = []

    def wish(self, job: str, time: datetime | None) -> None:
        """Wish to look at the job at this time, instead of at any set before; None: not at all."""
        if time is None:
            self._times.pop(job, None)
        elif self._times.get(job) != time:
            self._times[job] = time
            heapq.heappush(self._queue, (time, job))

    def next(self) -> datetime | None:
        """The earliest time that is still wished for."""
        while self._queue and self._times.get(self._queue[0][1]) != self._queue[0][0]:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def due(self, now: datetime) -> set[str]:
        """The jobs whose time has come; each is given once."""
        jobs: set[str] = set()
        while (time := self.next()) is not None and time <= now:
            job = heapq.heappop(self._queue)[1]
            del self._times[job]
            jobs.add(job)
        return jobs
