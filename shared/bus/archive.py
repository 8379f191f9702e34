"""Moving an ended job's events out of JOBS, which is kept small, into ARCHIVE, which is kept.

The order makes it safe to die at any moment. The events are read; every reaction must have dealt with them; bundles of
those that ARCHIVE does not have yet are appended under compare-and-set; ARCHIVE is read back and must hold each of them
byte for byte; only then JOBS is purged, of this job and up to the last event that was read. Whoever begins again finds
what is there already. Until the purge the job is whole in JOBS, from the compare on it is whole in ARCHIVE, and readers
that find it in both take each event once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

import structlog
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.errors import APIError

from shared.bundles import Stored, pack
from shared.bus.errors import BusError, BusUnavailableError
from shared.bus.history import History
from shared.bus.publish import Publisher, name_subject
from shared.bus.streams import JOBS, REACTIONS
from shared.events import NameReleased

# What begins a job, and what may come after it has been archived.
_LEFT_BY_JOBS: Final = ("tm.job.*.state.submitted", "tm.job.*.state.deleted")


class NotArchivedError(BusError):
    """ARCHIVE does not give back what was put into it, so nothing was purged."""


class Archive:
    """The way from JOBS to ARCHIVE."""

    def __init__(self, js: JetStreamContext, history: History, publisher: Publisher) -> None:
        self._js = js
        self._history = history
        self._publisher = publisher
        self._log = structlog.get_logger()

    async def jobs_since_before(self, cutoff: datetime) -> AsyncIterator[str]:
        """Jobs with events in JOBS that were submitted, or deleted, before the cutoff; the oldest first."""
        for subject in _LEFT_BY_JOBS:
            async for recorded in self._history.events(subject):
                if recorded.event.time > cutoff:
                    break
                yield recorded.event.subject

    async def put_away(self, job: str) -> bool:
        """Move all events of a job; False where a reaction has yet to deal with one.

        Raises ConcurrentWriteError where somebody else archives it, NotArchivedError, BusUnavailableError.
        """
        events = await self._history.job_messages_in_jobs(job)
        if not events or not await self._are_dealt_with(events[-1].sequence):
            return False
        await self._copy(job, events)
        await self._compare(job, events)
        with _away(job):
            await self._js.purge_stream(JOBS, subject=f"tm.job.{job}.>", seq=events[-1].sequence + 1)
        return True

    async def tidy_name(self, owner: str, name: str) -> None:
        """Of the name's history only the last event counts, and nothing where that is its release."""
        subject = name_subject(owner, name)
        last = await self._history.last_event(subject)
        with _away(subject):
            if last is not None and isinstance(last.event.data, NameReleased):
                await self._js.purge_stream(JOBS, subject=subject, seq=last.sequence + 1)
            elif last is not None:
                await self._js.purge_stream(JOBS, subject=subject, keep=1)

    async def _are_dealt_with(self, sequence: int) -> bool:
        for reaction in REACTIONS:
            if reaction.stream == JOBS:
                with _away(reaction.durable):
                    info = await self._js.consumer_info(JOBS, reaction.durable)
                floor = info.ack_floor.stream_seq if info.ack_floor else 0
                if (info.num_pending or info.num_ack_pending) and floor < sequence:
                    return False
        return True

    async def _copy(self, job: str, events: list[Stored]) -> None:
        there, expected = await self._history.archived(job)
        known = {message.sequence for message in there}
        for bundle in pack(message for message in events if message.sequence not in known):
            expected = await self._publisher.archive(job, bundle, expected)

    async def _compare(self, job: str, events: list[Stored]) -> None:
        there, _last = await self._history.archived(job)
        missing = set(events) - set(there)
        if missing:
            first = min(message.sequence for message in missing)
            raise NotArchivedError(f"ARCHIVE lacks {len(missing)} events of {job}, the first is {first} of JOBS")


@contextmanager
def _away(what: str) -> Iterator[None]:
    try:
        yield
    except (NatsError, APIError, OSError, TimeoutError) as error:
        raise BusUnavailableError(f"JetStream did not answer for {what}: {error or type(error).__name__}") from error
