"""What the logs service does for those who ask: list, read and follow logs; and for a job that is deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import structlog

from services.logs.adapters.files import StoredLog
from services.logs.adapters.jobs import Jobs
from services.logs.adapters.store import LogStore
from services.logs.domain.cleaning import HOLD_BACK_BYTES, clean, usable_bytes
from services.logs.domain.cursor import decode_cursor
from services.logs.domain.following import Selection
from services.logs.follow import Follower
from services.logs.tail import TAIL_MAX_BYTES, start_of_tail
from shared.auth.principal import Principal
from shared.clock import Clock
from shared.errors import InvalidInputError, NotFoundError, Violation
from shared.http.sse import ServerSentEvent
from shared.jobs import Recorded
from shared.logs_wire import ReplicaRef

_PAGE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which part of a log is wanted: from an offset on or the last lines, so many bytes at most, cleaned or raw."""

    offset: int | None = None
    limit: int | None = None
    tail: int | None = None
    raw: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a log, ready to be sent; `stop` is where the next part begins."""

    start: int
    stop: int
    size: int
    ended: bool
    content: AsyncIterator[bytes]


@dataclass(frozen=True, slots=True)
class LogHandlers:
    """The use cases."""

    store: LogStore
    jobs: Jobs
    clock: Clock

    async def logs(self, principal: Principal, reference: str) -> list[StoredLog]:
        """The logs of a job."""
        job = await self.jobs.find(principal, reference)
        return await self.store.logs(job.id)

    async def part(
        self, principal: Principal, reference: str, attempt: int, role: str, index: int, wanted: Wanted
    ) -> Part:
        """A part of one log; raises NotFoundError, InvalidInputError."""
        job = await self.jobs.find(principal, reference)
        if not any(each.number == attempt and each.replica(role, index) for each in job.attempts):
            raise NotFoundError("log", f"{reference}/{attempt}/{role}/{index}")
        log = await self.store.log(ReplicaRef(job.id, attempt, role, index))
        start = await self._start(log, wanted)
        stop = log.size if wanted.limit is None else min(log.size, start + wanted.limit)
        size, ended = log.size, log.position.ended
        if not wanted.raw:
            stop = await self._safe_stop(log, start, stop, final=ended and stop == size)
        return Part(start, stop, size, ended, self._content(log, start, stop, raw=wanted.raw))

    async def follow(
        self, principal: Principal, reference: str, selection: Selection, tail: int | None, last_event_id: str | None
    ) -> AsyncIterator[ServerSentEvent]:
        """Text of the selected logs as it comes."""
        cursor = decode_cursor(last_event_id) if last_event_id else None
        job = await self.jobs.find(principal, reference)
        return Follower(self.store, self.jobs, self.clock, job, selection).events(cursor, tail)

    async def on_deleted(self, recorded: Recorded) -> None:
        """Remove what is stored of a deleted job."""
        await self.store.delete(recorded.event.subject)
        structlog.get_logger(service="logs").info("logs_deleted", job=recorded.event.subject)

    async def _start(self, log: StoredLog, wanted: Wanted) -> int:
        if wanted.tail is not None:
            return await start_of_tail(
                self.store, log, wanted.tail, min(wanted.limit or TAIL_MAX_BYTES, TAIL_MAX_BYTES)
            )
        if wanted.offset is not None and wanted.offset > log.size:
            message = f"the log has {log.size} bytes so far, {wanted.offset} is behind its end"
            raise InvalidInputError((Violation("/query/offset", "out-of-range", message),))
        return wanted.offset or 0

    async def _safe_stop(self, log: StoredLog, start: int, stop: int, *, final: bool) -> int:
        """Where the text can be cut: not within a character or a sequence, and not at the very start."""
        if final or stop == start:
            return stop
        end = await self.store.read(log, max(start, stop - HOLD_BACK_BYTES), stop)
        safe = stop - len(end) + usable_bytes(end)
        if safe > start or stop == log.size:
            return safe
        return await self._safe_stop(log, start, min(log.size, start + 2 * HOLD_BACK_BYTES), final=False)

    async def _content(self, log: StoredLog, start: int, stop: int, *, raw: bool) -> AsyncIterator[bytes]:
        while start < stop:
            data = await self.store.read(log, start, min(stop, start + _PAGE_BYTES))
            if raw:
                yield data
                start += len(data)
            else:
                cleaned = clean(data, final=start + len(data) == stop)
                yield cleaned.text.encode()
                start += cleaned.used_bytes
            if not data:
                return
