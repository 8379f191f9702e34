"""What the logs service does for those who ask: list logs, read parts of one, follow them; and delete a job's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import structlog

from services.logs.adapters.files import StoredLog
from services.logs.adapters.jobs import Jobs
from services.logs.adapters.store import LogStore
from services.logs.domain.cleaning import HOLD_BACK_BYTES, clean, usable_bytes
from services.logs.domain.cursor import Place, decode_cursor
from services.logs.domain.following import Selection
from services.logs.domain.lines import count_breaks, start_of_line
from services.logs.follow import Follower
from services.logs.merged import MergedPage, merged_page
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
    """Which part of a log: where it begins (one of four, else at the beginning), how far it goes, cleaned or raw."""

    offset: int | None = None
    line: int | None = None
    since_ms: int | None = None
    tail: int | None = None
    limit: int | None = None
    lines: int | None = None
    until_ms: int | None = None
    raw: bool = False


@dataclass(frozen=True, slots=True)
class LogName:
    """Which log of a job."""

    job: str
    attempt: int
    role: str
    index: int


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

    async def log(self, principal: Principal, name: LogName) -> StoredLog:
        """One log; raises NotFoundError."""
        job = await self.jobs.find(principal, name.job)
        if not any(each.number == name.attempt and each.replica(name.role, name.index) for each in job.attempts):
            raise NotFoundError("log", f"{name.job}/{name.attempt}/{name.role}/{name.index}")
        return await self.store.log(ReplicaRef(job.id, name.attempt, name.role, name.index))

    async def part(self, principal: Principal, name: LogName, wanted: Wanted) -> Part:
        """A part of one log; raises NotFoundError, InvalidInputError."""
        log = await self.log(principal, name)
        start = await self._start(log, wanted)
        size, ended = log.size, log.position.ended
        stop = await self._stop(log, start, size, wanted)
        if not wanted.raw:
            stop = await self._safe_stop(log, start, stop, final=ended and stop == size)
        return Part(start, stop, size, ended, self.content(log, start, stop, raw=wanted.raw))

    async def follow(
        self,
        principal: Principal,
        reference: str,
        selection: Selection,
        tail: int | None,
        last_event_id: str | None,
        *,
        raw: bool = False,
    ) -> AsyncIterator[ServerSentEvent]:
        """Text of the selected logs as it comes."""
        cursor = decode_cursor(last_event_id) if last_event_id else None
        job = await self.jobs.find(principal, reference)
        return Follower(self.store, self.jobs, self.clock, job, selection, raw=raw).events(cursor, tail)

    async def lines(
        self,
        principal: Principal,
        reference: str,
        selection: Selection,
        *,
        limit: int,
        since_ms: int | None,
        until_ms: int | None,
        cursor: str | None,
        raw: bool,
    ) -> MergedPage:
        """The next lines of the selected logs of one attempt, by time."""
        read = decode_cursor(cursor, place="/query/cursor") if cursor else None
        job = await self.jobs.find(principal, reference)
        attempt = read.attempt if read else selection.attempt or job.attempt.number
        logs: dict[Place, tuple[StoredLog, int]] = {}
        for log in await self.store.logs(job.id, attempt):
            place = (log.replica.role, log.replica.index)
            if selection.has(place):
                start = read.offsets.get(place) if read else None
                if start is None:
                    start = await asyncio.to_thread(log.offset_since, since_ms) if since_ms is not None else 0
                logs[place] = (log, min(start, log.size))
        return await asyncio.to_thread(merged_page, logs, attempt, limit, until_ms=until_ms, raw=raw)

    async def on_deleted(self, recorded: Recorded) -> None:
        """Remove what is stored of a deleted job; where another instance writes its files, that one does so."""
        if not self.store.holds(recorded.event.subject):
            return
        await self.store.delete(recorded.event.subject)
        structlog.get_logger(service="logs").info("logs_deleted", job=recorded.event.subject)

    async def content(self, log: StoredLog, start: int, stop: int, *, raw: bool) -> AsyncIterator[bytes]:
        """The bytes of a range, piece by piece."""
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

    async def _start(self, log: StoredLog, wanted: Wanted) -> int:
        if wanted.tail is not None:
            return await start_of_tail(
                self.store, log, wanted.tail, min(wanted.limit or TAIL_MAX_BYTES, TAIL_MAX_BYTES)
            )
        if wanted.line is not None:
            return await asyncio.to_thread(log.offset_of_line, wanted.line - 1)
        if wanted.since_ms is not None:
            return await asyncio.to_thread(log.offset_since, wanted.since_ms)
        if wanted.offset is not None and wanted.offset > log.size:
            message = f"the log has {log.size} bytes so far, {wanted.offset} is behind its end"
            raise InvalidInputError((Violation("/query/offset", "out-of-range", message),))
        return wanted.offset or 0

    async def _stop(self, log: StoredLog, start: int, size: int, wanted: Wanted) -> int:
        """Where the first of the limits is reached."""
        stops = [size]
        if wanted.limit is not None:
            stops.append(start + wanted.limit)
        if wanted.until_ms is not None:
            stops.append(max(start, await asyncio.to_thread(log.offset_since, wanted.until_ms + 1)))
        if wanted.lines is not None:
            stops.append(await asyncio.to_thread(_behind_lines, log, start, min(stops), wanted.lines))
        return min(stops)

    async def _safe_stop(self, log: StoredLog, start: int, stop: int, *, final: bool) -> int:
        """Where the text can be cut: not within a character or a sequence, and not at the very start."""
        if final or stop == start:
            return stop
        end = await self.store.read(log, max(start, stop - HOLD_BACK_BYTES), stop)
        safe = stop - len(end) + usable_bytes(end)
        if safe > start or stop == log.size:
            return safe
        return await self._safe_stop(log, start, min(log.size, start + 2 * HOLD_BACK_BYTES), final=False)


def _behind_lines(log: StoredLog, start: int, stop: int, lines: int) -> int:
    """Where so many lines from an offset on end."""
    last = b""
    for at, text in log.texts(start, stop):
        after_cr = last.endswith(b"\r")
        breaks = count_breaks(text, after_cr=after_cr)
        if breaks >= lines:
            return at + start_of_line(text, lines, after_cr=after_cr)
        lines, last = lines - breaks, text
    return stop
