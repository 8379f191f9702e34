"""Searching the logs of one replica, of a job, or of all jobs that somebody may see, telling what is found at once.

Jobs are searched newest first, the logs of a job by attempt, role and index, a log from its beginning on. That order is
what the cursor of each event names a place in: job (by its submission), log, offset. A search that is taken up again
with it goes on behind the last line that was told, also where logs have grown and new jobs have come meanwhile.

Logs are scanned in threads, piece by piece; a few searches at a time, the others wait for their turn between pieces.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from services.logs.adapters.files import StoredLog
from services.logs.adapters.jobs import Jobs
from services.logs.adapters.store import LogStore
from services.logs.domain.following import Selection
from services.logs.domain.matching import Matcher, Pattern, matcher_of
from services.logs.scanning import Hit, Scanned, TimeRange, scan_piece
from shared.auth.principal import Principal
from shared.clock import Clock, rfc3339
from shared.errors import NotFoundError
from shared.http.paging import CursorKey, decode_cursor, encode_cursor
from shared.http.sse import ServerSentEvent
from shared.jobs import Job
from shared.readmodel import position

_AT_A_TIME: Final = 2
_TELL_S: Final = 1.0


class VisibleJobs(Protocol):
    """Which jobs there are to search."""

    def visible(self, principal: Principal, project: str | None, after: tuple[str, str] | None) -> AsyncIterator[Job]:
        """The principal's jobs, or those in a project that they may see, newest first, from behind a position."""
        ...


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look: one job, or all of one's own, or of a project; which logs of them; what time."""

    job: str | None = None
    project: str | None = None
    selection: Selection = field(default_factory=Selection)
    times: TimeRange = field(default_factory=TimeRange)


@dataclass(frozen=True, slots=True)
class _Place:
    """How far a search is: the job and its position in the list, the log, the offset."""

    job: str
    submitted: str
    attempt: int = 0
    role: str = ""
    index: int = 0
    offset: int = 0

    @property
    def cursor(self) -> str:
        return encode_cursor((self.submitted, self.job, self.attempt, self.role, self.index, self.offset))

    @property
    def log(self) -> tuple[int, str, int]:
        return self.attempt, self.role, self.index


@dataclass(frozen=True, slots=True)
class SearchHandlers:
    """The use case."""

    store: LogStore
    jobs: Jobs
    visible_jobs: VisibleJobs
    clock: Clock
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_A_TIME))

    async def search(
        self, principal: Principal, scope: Scope, pattern: Pattern, limit: int, cursor: str | None
    ) -> AsyncIterator[ServerSentEvent]:
        """Events `match` and `progress`, and one `end`; raises NotFoundError, InvalidInputError."""
        place = _place_of(decode_cursor(cursor, str, str, int, str, int, int))
        job = await self.jobs.find(principal, scope.job) if scope.job is not None else None
        matcher = await asyncio.to_thread(matcher_of, pattern)
        run = _Run(self.store, self._turns, matcher, scope, limit, self.clock)
        return run.events(_one(job) if job is not None else self._all(principal, scope, place), place)

    def _all(self, principal: Principal, scope: Scope, place: _Place | None) -> AsyncIterator[Job]:
        after = (place.submitted, place.job) if place else None
        return self._from(principal, scope, after)

    async def _from(self, principal: Principal, scope: Scope, after: tuple[str, str] | None) -> AsyncIterator[Job]:
        """The job in which a search was left, then those behind it."""
        if after is not None:
            with suppress(NotFoundError):  # it was deleted meanwhile, or never was this principal's to see
                yield await self.jobs.find(principal, after[1])
        async for job in self.visible_jobs.visible(principal, scope.project, after):
            yield job


@dataclass(slots=True)
class _Run:
    """One search under way."""

    store: LogStore
    turns: asyncio.Semaphore
    matcher: Matcher
    scope: Scope
    limit: int
    clock: Clock
    found: int = 0
    searched_bytes: int = 0
    told_at_s: float = 0.0

    async def events(self, jobs: AsyncIterator[Job], place: _Place | None) -> AsyncIterator[ServerSentEvent]:
        left: _Place | None = place
        async for job in jobs:
            if not self._may_hold(job):
                continue
            here = _Place(job.id, position(job)[0])
            logs = await self.store.logs(job.id, self.scope.selection.attempt)
            for log in (log for log in logs if self.scope.selection.has((log.replica.role, log.replica.index))):
                start = _start_in(log, left)
                if start is None:
                    continue
                async for event in self._events_of(log, here, start):
                    yield event
                if self.found == self.limit:
                    return
            left = None
        yield self._end(None)

    def _may_hold(self, job: Job) -> bool:
        ended_ms = _millis(job.ended_at) if job.ended_at else _millis(self.clock.now())
        slack_ms = 3_600_000  # clocks of nodes may differ from the platform's
        return self.scope.times.touches(_millis(job.submitted_at) - slack_ms, ended_ms + slack_ms)

    async def _events_of(self, log: StoredLog, job: _Place, start: int) -> AsyncIterator[ServerSentEvent]:
        size, at = log.size, start
        replica = log.replica
        while at < size:
            scanned = await self._scan(log, at, size)
            self.searched_bytes += scanned.searched_bytes
            for hit in scanned.hits:
                self.found += 1
                place = _Place(job.job, job.submitted, replica.attempt, replica.role, replica.index, hit.stop)
                yield _match(place, hit)
                if self.found == self.limit:
                    yield self._end(place)
                    return
            if scanned.next_offset is None:
                return
            at = scanned.next_offset
            place = _Place(job.job, job.submitted, replica.attempt, replica.role, replica.index, at)
            if self._is_time_to_tell():
                yield ServerSentEvent(json.dumps(self._counts), event="progress", id=place.cursor)

    async def _scan(self, log: StoredLog, at: int, size: int) -> Scanned:
        def scan() -> Scanned:
            left = self.limit - self.found
            return scan_piece(log, self.matcher, at, self.scope.times, left, size=size)

        async with self.turns:
            return await asyncio.to_thread(log.segments.again, scan)

    def _is_time_to_tell(self) -> bool:
        now_s = asyncio.get_running_loop().time()
        if now_s - self.told_at_s < _TELL_S:
            return False
        self.told_at_s = now_s
        return True

    def _end(self, place: _Place | None) -> ServerSentEvent:
        document = {**self._counts, "complete": place is None, "next": place.cursor if place else None}
        return ServerSentEvent(json.dumps(document), event="end")

    @property
    def _counts(self) -> dict[str, Any]:
        return {"matches": self.found, "searched_bytes": self.searched_bytes}


async def _one(job: Job) -> AsyncIterator[Job]:
    yield job


def _start_in(log: StoredLog, left: _Place | None) -> int | None:
    """Where to begin in a log; None where an earlier search has been through it."""
    if left is None or left.job != log.replica.job:
        return 0
    here = (log.replica.attempt, log.replica.role, log.replica.index)
    if here == left.log:
        return left.offset
    return 0 if here > left.log else None


def _place_of(key: CursorKey | None) -> _Place | None:
    if key is None:
        return None
    submitted, job, attempt, role, index, offset = key
    return _Place(str(job), str(submitted), int(attempt), str(role), int(index), int(offset))


def _match(place: _Place, hit: Hit) -> ServerSentEvent:
    seen = None if hit.time_ms is None else rfc3339(datetime.fromtimestamp(hit.time_ms / 1000, UTC))
    document = {
        "job": place.job,
        "attempt": place.attempt,
        "role": place.role,
        "index": place.index,
        "offset": hit.offset,
        "time": seen,
        "text": hit.text,
    }
    return ServerSentEvent(json.dumps(document, ensure_ascii=False), event="match", id=place.cursor)


def _millis(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
