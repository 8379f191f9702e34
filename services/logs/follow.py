"""Following the logs of a job: what is there, then what comes, until nothing can come any more.

A follower reads from the store by offset, as much as its client takes; nothing is queued for it, so a slow client costs
nothing. Between reads it waits for the job's bell. Each event carries the cursor behind it: a client that comes back
with it misses nothing and gets nothing twice.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from services.logs.adapters.files import StoredLog
from services.logs.adapters.jobs import Jobs
from services.logs.adapters.store import LogStore
from services.logs.domain.cleaning import clean, unchanged
from services.logs.domain.cursor import Cursor, Place, encode_cursor
from services.logs.domain.following import Selection, what_follows
from services.logs.tail import start_of_tail
from shared.clock import Clock
from shared.http.sse import ServerSentEvent
from shared.jobs import Job

PAGE_BYTES: Final = 64 * 1024
_ASK_AGAIN_S: Final = 3.0
_ASK_AGAIN_ENDING_S: Final = 0.25


@dataclass(slots=True)
class _Followed:
    """A log and how much of it was sent."""

    log: StoredLog
    sent: int

    @property
    def complete(self) -> bool:
        """Whether all of it was sent and nothing can come."""
        return self.log.position.ended and self.sent >= self.log.size


class Follower:
    """One client's view of a job's logs."""

    def __init__(
        self, store: LogStore, jobs: Jobs, clock: Clock, job: Job, selection: Selection, *, raw: bool = False
    ) -> None:
        self._store = store
        self._jobs = jobs
        self._clock = clock
        self._job = job
        self._selection = selection
        self._clean = unchanged if raw else clean
        self._attempt = selection.attempt or job.attempt.number
        self._followed: dict[Place, _Followed] = {}
        self._epoch = store.epoch

    async def events(self, cursor: Cursor | None, tail: int | None) -> AsyncIterator[ServerSentEvent]:
        """Chunks of text, and one `end`."""
        offsets = dict(cursor.offsets) if cursor else {}
        self._attempt = cursor.attempt if cursor and self._selection.attempt is None else self._attempt
        tail = None if cursor else tail
        while True:
            await self._find_all(offsets, tail)
            async for event in self._attempt_events():
                yield event
            verdict, whole = self._what_follows()
            if verdict == "end":
                yield self._end(whole=whole)
                return
            self._attempt, self._followed, offsets, tail = self._attempt + 1, {}, {}, None

    async def _attempt_events(self) -> AsyncIterator[ServerSentEvent]:
        """Everything of the present attempt."""
        heard_nothing = False
        while True:
            bell = self._store.bells.bell(self._job.id)
            await self._find_moved()
            self._find_new()
            sent_any = False
            for place, followed in list(self._followed.items()):
                event = await self._next_of(place, followed)
                if event is not None:
                    sent_any = True
                    yield event
            if sent_any:
                continue
            if (self._all_complete or heard_nothing) and await self._is_over():
                return
            heard_nothing = not await self._rings(bell)

    async def _next_of(self, place: Place, followed: _Followed) -> ServerSentEvent | None:
        """A page of a log that has more; pages without any text are passed over."""
        log = followed.log
        while followed.sent < log.size:
            start, ended, stop = followed.sent, log.position.ended, min(log.size, followed.sent + PAGE_BYTES)
            data = await self._store.read(log, start, stop)
            cleaned = self._clean(data, final=ended and stop == log.size)
            followed.sent += cleaned.used_bytes
            if cleaned.text:
                return self._chunk(place, start, cleaned.text)
            if not cleaned.used_bytes:
                return None
        return None

    @property
    def _all_complete(self) -> bool:
        return all(followed.complete for followed in self._followed.values())

    async def _is_over(self) -> bool:
        """Whether nothing can come of this attempt, by the job's events."""
        job = await self._jobs.reload(self._job)
        self._job = job or self._job.model_copy(update={"deleted": True})
        return self._what_follows()[0] != "wait"

    def _what_follows(self) -> tuple[str, bool]:
        if self._job.deleted:
            return "end", False
        complete = {place: followed.complete for place, followed in self._followed.items()}
        return what_follows(self._job, self._attempt, self._selection, complete, self._clock.now())

    async def _rings(self, bell: asyncio.Event) -> bool:
        """Whether something of the job is stored before it is time to ask about the job again."""
        ending = self._job.ended or (self._followed and self._all_complete)
        with suppress(TimeoutError):
            async with asyncio.timeout(_ASK_AGAIN_ENDING_S if ending else _ASK_AGAIN_S):
                return await bell.wait()
        return False

    async def _find_all(self, offsets: dict[Place, int], tail: int | None) -> None:
        for log in await self._store.logs(self._job.id, self._attempt):
            place = (log.replica.role, log.replica.index)
            if self._selection.has(place):
                start = await start_of_tail(self._store, log, tail) if tail is not None else offsets.get(place, 0)
                self._followed[place] = _Followed(log, min(start, log.size))

    async def _find_moved(self) -> None:
        """Take the logs anew where the instance that writes them may be another one now."""
        if self._epoch != self._store.epoch:
            self._epoch = self._store.epoch
            for followed in self._followed.values():
                followed.log = await self._store.log(followed.log.replica)

    def _find_new(self) -> None:
        for log in self._store.known_logs(self._job.id):
            place = (log.replica.role, log.replica.index)
            if log.replica.attempt == self._attempt and place not in self._followed and self._selection.has(place):
                self._followed[place] = _Followed(log, 0)

    def _chunk(self, place: Place, offset: int, text: str) -> ServerSentEvent:
        role, index = place
        document = {"attempt": self._attempt, "role": role, "index": index, "offset": offset, "text": text}
        cursor = Cursor(self._attempt, {place: followed.sent for place, followed in self._followed.items()})
        return ServerSentEvent(json.dumps(document, ensure_ascii=False), event="chunk", id=encode_cursor(cursor))

    def _end(self, *, whole: bool) -> ServerSentEvent:
        document = {"attempt": self._attempt, "state": self._job.state, "complete": whole}
        return ServerSentEvent(json.dumps(document), event="end")
