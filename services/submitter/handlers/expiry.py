"""Deletes ended jobs whose `ttlAfterFinished` is over.

Nothing is remembered that the events do not say: at the start all ended jobs are looked at, afterwards each that ends.
So a time that passed while the platform was away is made up for, and of two submitters the second finds the job gone.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final, Protocol

import structlog

from services.submitter.domain.lifetimes import Lifetimes, expires_at
from shared.auth.principal import Principal
from shared.clock import Clock
from shared.errors import NotFoundError, TrainmasterError
from shared.ids import UserId
from shared.jobs import ENDED, Job, Recorded
from shared.readmodel import JobQuery, JobReadModel

PLATFORM: Final = Principal(UserId("u-platform"), "platform", admin=True)
TROUBLE_PAUSE_S: Final = 10.0
# Sleeping by the monotonic clock would miss that the wall clock was set.
LOOK_AGAIN_S: Final = 60.0
_PAGE: Final = 200


class Deleting(Protocol):
    """What deletes a job in somebody's name."""

    async def delete(self, principal: Principal, reference: str) -> None:
        """Delete an ended job; raises NotFoundError where it is gone already."""
        ...


class Expiry:
    """Runs beside the submitter's other followers."""

    def __init__(self, jobs: JobReadModel, deleting: Deleting, clock: Clock) -> None:
        self._jobs = jobs
        self._deleting = deleting
        self._clock = clock
        self._lifetimes = Lifetimes()
        self._noted = asyncio.Event()
        self._log = structlog.get_logger(service="submitter")
        jobs.on_event(self._on_event)

    async def run(self) -> None:
        """Delete what is due, for ever."""
        await self._jobs.caught_up.wait()
        await self._note_past()
        while True:
            self._noted.clear()
            for job in self._lifetimes.due(self._clock.now()):
                await self._delete(job)
            await self._pause()

    def _on_event(self, before: Job | None, after: Job, _recorded: Recorded) -> None:
        if self._jobs.caught_up.is_set() and after.ended and not (before and before.ended):
            self._lifetimes.note(after)
            self._noted.set()

    async def _note_past(self) -> None:
        query = JobQuery(states=tuple(ENDED), limit=_PAGE)
        while True:
            page = self._jobs.query(query)
            for job in page.jobs:
                self._lifetimes.note(job)
            if page.next_after is None:
                return
            query = JobQuery(states=tuple(ENDED), limit=_PAGE, after=page.next_after)
            await asyncio.sleep(0)

    async def _delete(self, job: str) -> None:
        found = self._jobs.get(job)
        if found is None or expires_at(found) is None:
            return
        try:
            await self._deleting.delete(PLATFORM, job)
        except NotFoundError:
            return
        except TrainmasterError as error:
            self._log.warning("job_not_expired", job=job, reason=error.message)
            self._lifetimes.postpone(job, self._clock.now() + timedelta(seconds=TROUBLE_PAUSE_S))
        else:
            self._log.info("job_expired", job=job)

    async def _pause(self) -> None:
        """Return when a job has ended, the next one is due, or the clock may have been set."""
        upcoming = self._lifetimes.next()
        until_s = LOOK_AGAIN_S if upcoming is None else max((upcoming - self._clock.now()).total_seconds(), 0)
        waits = [
            asyncio.create_task(self._noted.wait()),
            asyncio.create_task(self._clock.sleep(min(until_s, LOOK_AGAIN_S))),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
