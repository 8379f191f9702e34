"""The meter: puts on record what attempts used, window by window while they live, and all the rest when they end.

Every scheduler reacts to `attempt.ended` (a durable consumer, so that no end is forgotten while the platform is away);
the one that leads also looks at the live jobs each time a window can be read. Either way `settle` publishes what
`due` finds missing. An event is written behind the last one of its project under compare-and-set, after the usage book
has read up to that one; so of two writers, or of one before and after a crash, only one writes each window.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

import structlog

from services.scheduler.control.usage_book import UsageBook
from services.scheduler.domain.billing import due
from services.scheduler.domain.metering import SETTLE, next_tick
from services.scheduler.domain.placement import holds_capacity
from shared.bus import Bus, BusUnavailableError, ConcurrentWriteError
from shared.bus.streams import USAGE
from shared.catalog import Project
from shared.clock import Clock
from shared.errors import UnavailableError
from shared.jobs import Attempt, Job, Recorded
from shared.readmodel import JobReadModel

MAX_TRIES: Final = 10
TROUBLE_PAUSE_S: Final = 5.0
BOOK_PATIENCE_S: Final = 30.0


def usage_subject(project: str) -> str:
    """Subject of the usage of a project, which is given by its name."""
    return f"tm.usage.{Project.id_of(project)}"


class Meter:
    """Writes usage events."""

    def __init__(self, bus: Bus, book: UsageBook, jobs: JobReadModel, clock: Clock) -> None:
        self._bus = bus
        self._book = book
        self._jobs = jobs
        self._clock = clock
        self._writing = asyncio.Lock()
        self._log = structlog.get_logger(service="scheduler")

    async def on_attempt_ended(self, recorded: Recorded) -> None:
        """Put everything on record that an ended attempt used."""
        event = recorded.event
        await self.settle(event.subject, event.attempt or 0, event.project or "")

    async def run(self) -> None:
        """Look at the live jobs whenever a window can be read; the first time once what happened is reported."""
        await self._clock.sleep(SETTLE.total_seconds())
        while True:
            pause_s = 0.0 if await self.look() else TROUBLE_PAUSE_S
            now = self._clock.now()
            await self._clock.sleep(pause_s or (next_tick(now) - now).total_seconds())

    async def look(self) -> bool:
        """Put on record what live jobs used in windows that have closed; False where that is to be tried again."""
        for job in self._running():
            try:
                await self.settle(job.id, job.attempt.number, job.project)
            except (BusUnavailableError, UnavailableError) as error:
                self._log.warning("metering_waits", job=job.id, reason=error.message)
                return False
            except Exception:  # noqa: BLE001  # whatever it is, the other jobs are metered
                self._log.exception("metering_failed", job=job.id)
        return True

    def _running(self) -> Iterator[Job]:
        return (job for job in self._jobs.live() if holds_capacity(job))

    async def settle(self, job: str, attempt: int, project: str) -> None:
        """Publish what is missing of an attempt; raises UnavailableError, BusUnavailableError."""
        async with self._writing:
            for _ in range(MAX_TRIES):
                try:
                    return await self._publish(job, attempt, project)
                except ConcurrentWriteError as error:
                    self._log.info("metering_lost", job=job, reason=error.message)
        raise UnavailableError(f"usage of project {project} changed {MAX_TRIES} times while it was written")

    async def _publish(self, job_id: str, number: int, project: str) -> None:
        subject = usage_subject(project)
        last = await self._bus.history.last_sequence(subject, stream=USAGE)
        await self._read_up_to(last)
        # Only now, so that whoever knew less of the job and wrote in the meantime makes our write fail.
        job = await self._bus.load_job(job_id)
        attempt = _attempt(job, number)
        if job is None or attempt is None:
            return
        now = self._clock.now()
        for item in due(job, attempt, self._book.booked(job_id, number), now):
            last = await self._bus.meter(item.event(job, number, now), subject=subject, expected=last)
            self._log.info("usage_recorded", job=job_id, attempt=number, usage=item.id)
        await self._read_up_to(last)

    async def _read_up_to(self, sequence: int) -> None:
        try:
            async with asyncio.timeout(BOOK_PATIENCE_S):
                await self._book.reached(sequence)
        except TimeoutError:
            raise UnavailableError(f"the usage book does not get to sequence {sequence} of {USAGE}") from None


def _attempt(job: Job | None, number: int) -> Attempt | None:
    return next((attempt for attempt in (job.attempts if job else ()) if attempt.number == number), None)
