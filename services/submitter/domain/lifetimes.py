"""How long an ended job is kept, where its spec says so; and which jobs are due to be deleted when."""

from __future__ import annotations

import heapq
from datetime import datetime, timedelta
from typing import Final

from shared.jobs import Job
from shared.units import parse_duration_s

TTL_KEY: Final = "ttlAfterFinished"


def expires_at(job: Job) -> datetime | None:
    """When the job is to be deleted; None while it lives, and where nobody asked for that."""
    ttl = job.submitted.spec.get(TTL_KEY)
    if job.deleted or job.ended_at is None or not isinstance(ttl, str):
        return None
    return job.ended_at + timedelta(seconds=parse_duration_s(ttl))


class Lifetimes:
    """Jobs by the time at which they are due."""

    def __init__(self) -> None:
        self._queue: list[tuple[datetime, str]] = []

    def note(self, job: Job) -> None:
        """Remember when the job is due, if ever."""
        at = expires_at(job)
        if at is not None:
            self.postpone(job.id, at)

    def postpone(self, job: str, until: datetime) -> None:
        """Have the job come up at this time."""
        heapq.heappush(self._queue, (until, job))

    def due(self, now: datetime) -> list[str]:
        """The jobs whose time has come; each is given once for every time that was noted."""
        found = []
        while self._queue and self._queue[0][0] <= now:
            found.append(heapq.heappop(self._queue)[1])
        return found

    def next(self) -> datetime | None:
        """When to look again; None where nothing is noted."""
        return self._queue[0][0] if self._queue else None
