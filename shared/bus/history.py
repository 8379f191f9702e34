"""Reading what the streams hold of one subject: all events of a job, the last state event, the epoch.

A job's events are in JOBS, and those of a job that ended long ago in ARCHIVE (see `archive`); what follows reads both.

All events of a subject come from one batched direct read (ADR-31 of NATS): a request with `next_by_subj` is answered by
a message an event and a closing status, which is several times quicker than making a consumer.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError, ServiceUnavailableError

from shared.bundles import Stored, merged, unpack
from shared.bus.errors import BusError, BusUnavailableError
from shared.bus.streams import ARCHIVE, EPOCH_SUBJECT, JOBS
from shared.events import EventError, decode
from shared.jobs import IllegalTransitionError, Job, Recorded, fold

_BATCH: Final = 1000
_TIMEOUT_S: Final = 5.0
_FIRST_OF_JOB: Final = ".state.submitted"
_NOT_FOUND: Final = "404"
_END_OF_BATCH: Final = "204"
_NO_RESPONDERS: Final = "503"


class History:
    """Point reads of the streams."""

    def __init__(self, client: Client, js: JetStreamContext) -> None:
        self._client = client
        self._js = js
        self._log = structlog.get_logger()

    async def job_events(self, job: str) -> list[Recorded]:
        """All events of a job, archived ones included, in their order; what is no event is logged and left out."""
        return list(self.readable(await self._job_messages(job)))

    async def job_messages_in_jobs(self, job: str) -> list[Stored]:
        """What JOBS holds of a job."""
        return [_stored_of(message) for message in await self.messages(JOBS, f"tm.job.{job}.>")]

    async def archived(self, job: str) -> tuple[list[Stored], int]:
        """What ARCHIVE holds of a job, and the sequence of its last bundle there, 0 where there is none."""
        bundles = await self.messages(ARCHIVE, archive_subject(job))
        last = sequence_of(bundles[-1]) if bundles else 0
        return merged(*(unpack(bundle.data) for bundle in bundles)), last

    async def events(self, subject: str) -> AsyncIterator[Recorded]:
        """Events of JOBS on a subject, which may have wildcards, the oldest first, read as they are asked for."""
        next_sequence = 1
        while True:
            page, pending = await self._page(JOBS, subject, next_sequence)
            for recorded in self.readable(map(_stored_of, page)):
                yield recorded
            if not pending or not page:
                return
            next_sequence = sequence_of(page[-1]) + 1

    def readable(self, messages: Iterable[Stored]) -> Iterator[Recorded]:
        """The events of messages; what is no event is logged and left out."""
        for message in messages:
            try:
                yield Recorded(message.sequence, message.subject, decode(message.body))
            except EventError as error:
                self._log.error("event_unreadable", subject=message.subject, error=error.message)

    async def _job_messages(self, job: str) -> list[Stored]:
        present = await self.job_messages_in_jobs(job)
        if present and present[0].subject.endswith(_FIRST_OF_JOB):
            return present
        return merged((await self.archived(job))[0], present)

    async def job(self, job: str) -> Job | None:
        """The job as its events tell it, None where there are none."""
        folded: Job | None = None
        for recorded in await self.job_events(job):
            try:
                folded = fold(folded, recorded)
            except IllegalTransitionError as error:
                self._log.error("event_not_allowed", job=job, error=error.message)
        return folded

    async def last_state(self, job: str) -> Recorded | None:
        """The job's last state event."""
        found = await self._last(f"tm.job.{job}.state.>")
        return Recorded(found[0], found[1], decode(found[2])) if found else None

    async def last_sequence(self, subject: str, *, stream: str = JOBS) -> int:
        """Sequence of the last message on a subject, 0 where there is none."""
        found = await self._last(subject, stream)
        return found[0] if found else 0

    async def last_event(self, subject: str, *, stream: str = JOBS) -> Recorded | None:
        """The last event on a subject."""
        found = await self._last(subject, stream)
        return Recorded(found[0], found[1], decode(found[2])) if found else None

    async def epoch(self) -> int:
        """The present leadership epoch, 0 before the first."""
        return await self.last_sequence(EPOCH_SUBJECT)

    async def _last(self, subject: str, stream: str = JOBS) -> tuple[int, str, bytes] | None:
        try:
            message = await self._js.get_last_msg(stream, subject)
        except NotFoundError:
            return None
        except (NatsTimeoutError, NoRespondersError, ServiceUnavailableError, OSError) as error:
            raise BusUnavailableError(f"JetStream did not answer for {subject}") from error
        return message.seq or 0, message.subject or subject, message.data or b""

    async def messages(self, stream: str, subject: str, *, after: int = 0) -> list[Msg]:
        """Messages of a subject behind a sequence, in stream order; the stream must allow direct reads."""
        messages: list[Msg] = []
        next_sequence = after + 1
        while True:
            page, pending = await self._page(stream, subject, next_sequence)
            messages += page
            if not pending or not page:
                return messages
            next_sequence = sequence_of(page[-1]) + 1

    async def _page(self, stream: str, subject: str, from_sequence: int) -> tuple[list[Msg], int]:
        inbox = self._client.new_inbox()
        replies = await self._client.subscribe(inbox)
        try:
            request = {"batch": _BATCH, "seq": from_sequence, "next_by_subj": subject}
            await self._client.publish(f"$JS.API.DIRECT.GET.{stream}", json.dumps(request).encode(), reply=inbox)
            page: list[Msg] = []
            while True:
                message = await replies.next_msg(timeout=_TIMEOUT_S)
                status = (message.headers or {}).get("Status")
                if status in (_END_OF_BATCH, _NOT_FOUND):
                    return page, int((message.headers or {}).get("Nats-Num-Pending", "0"))
                if status == _NO_RESPONDERS:
                    raise BusUnavailableError(f"no server answers for {subject} now")
                if status is not None:
                    raise BusError(f"reading {subject} failed: {status} {(message.headers or {}).get('Description')}")
                page.append(message)
        except (TimeoutError, NatsTimeoutError) as error:
            raise BusUnavailableError(f"JetStream did not answer for {subject} within {_TIMEOUT_S:g} s") from error
        finally:
            await replies.unsubscribe()


def archive_subject(job: str) -> str:
    """Subject of a job's bundles."""
    return f"tm.archive.{job}"


def _stored_of(message: Msg) -> Stored:
    return Stored(sequence_of(message), (message.headers or {})["Nats-Subject"], message.data)


def sequence_of(message: Msg) -> int:
    """Stream sequence of a message that a direct read gave."""
    return int((message.headers or {})["Nats-Sequence"])


def recorded_of(message: Msg) -> Recorded:
    """Event of a message that a direct read gave; raises EventError."""
    return Recorded(sequence_of(message), (message.headers or {})["Nats-Subject"], decode(message.data))
