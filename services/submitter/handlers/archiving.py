"""Moves jobs that ended long ago out of JOBS, so that it stays as small as what goes on.

Once an hour the oldest submissions in JOBS are looked at. What has ended before the cutoff, and is dealt with by every
service that reacts to it, moves to ARCHIVE; all the rest is looked at again. Nothing is remembered in between, several
submitters may do this at once, and each may die at any moment (see `shared.bus.archive`).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import structlog

from services.submitter.domain.archiving import is_at_rest
from shared.bus import Bus
from shared.clock import Clock
from shared.errors import TrainmasterError
from shared.jobs import Job
from shared.readmodel import JobReadModel

LOOK_S: Final = 3600.0


class Archiving:
    """Runs beside the submitter's other followers."""

    def __init__(self, bus: Bus, jobs: JobReadModel, clock: Clock, after_s: float) -> None:
        self._bus = bus
        self._jobs = jobs
        self._clock = clock
        self._after_s = after_s
        self._log = structlog.get_logger(service="submitter")

    async def run(self) -> None:
        """Archive what is due, for ever."""
        await self._jobs.caught_up.wait()
        while True:
            try:
                await self.look()
            except TrainmasterError as error:
                self._log.warning("archiving_waits", reason=error.message)
            await self._clock.sleep(min(LOOK_S, self._after_s))

    async def look(self) -> None:
        """Archive what is due now; raises BusUnavailableError."""
        cutoff = self._clock.now() - timedelta(seconds=self._after_s)
        async for job_id in self._bus.archive.jobs_since_before(cutoff):
            job = self._jobs.get(job_id)
            if job is not None and is_at_rest(job, cutoff):
                await self._archive(job)

    async def _archive(self, job: Job) -> None:
        """Archive one job; one that cannot be archived must not keep the others from it."""
        try:
            if await self._bus.archive.put_away(job.id):
                await self._bus.archive.tidy_name(job.owner, job.name)
                self._log.info("job_archived", job=job.id)
        except TrainmasterError as error:
            self._log.warning("job_not_archived", job=job.id, reason=error.message)
