"""Logs that are not wanted any more go: those of deleted jobs, and those of ended jobs beyond the limits.

The limits are looked at every five minutes. A removal is announced by an event of the job before anything is gone;
where the process dies between the two the same event is announced again. Each instance of the service removes what lies
in the partitions that it holds. What could not be removed, because an archive did not answer, is left for the next
time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol

import structlog

from services.logs.adapters.layout import Layout
from services.logs.adapters.store import LogStore
from services.logs.domain.retention import Limits, Removal, StoredJob, removals
from shared.clock import Clock
from shared.errors import TrainmasterError
from shared.events import Event, LogsRemoved
from shared.jobs import Job

EVERY_S: Final = 300.0


class KnownJobs(Protocol):
    """What is known of jobs."""

    caught_up: asyncio.Event

    def get(self, job_id: str) -> Job | None:
        """The job with this id, also a deleted one."""
        ...


class Events(Protocol):
    """Where events go."""

    async def observe(self, event: Event) -> int:
        """Publish an observation; gives its sequence."""
        ...


class Tidying:
    """The one who removes."""

    def __init__(self, store: LogStore, jobs: KnownJobs, events: Events, limits: Limits, clock: Clock) -> None:
        self._store = store
        self._jobs = jobs
        self._events = events
        self._limits = limits
        self._clock = clock
        self._log = structlog.get_logger(service="logs")

    async def run(self) -> None:
        """Remove until cancelled."""
        await self._jobs.caught_up.wait()
        while True:
            try:
                await self.look()
            except (OSError, TrainmasterError) as error:
                self._log.warning("logs_not_tidied", reason=str(error))
            await self._clock.sleep(EVERY_S)

    async def look(self) -> None:
        """Remove what is to go now."""
        names = await asyncio.to_thread(self._store.layout.jobs)
        jobs = [job for name in names if (job := self._jobs.get(name)) is not None]
        for job in jobs:
            if job.deleted and self._store.holds(job.id):
                await self._store.delete(job.id)
        if self._limits.any:
            kept = [job for job in jobs if not job.deleted]
            stored = await asyncio.to_thread(_stored, self._store.layout, kept)
            by_id = {job.id: job for job in kept}
            for removal in removals(stored, self._limits, self._clock.now()):
                if self._store.holds(removal.job.job):
                    await self._remove(by_id[removal.job.job], removal)

    async def _remove(self, job: Job, removal: Removal) -> None:
        await self._events.observe(_event(job, removal, self._clock))
        await self._store.delete(job.id)
        self._log.info("logs_removed", job=job.id, reason=removal.reason, bytes=removal.job.bytes)


def _stored(layout: Layout, jobs: Iterable[Job]) -> list[StoredJob]:
    return [StoredJob(job.id, job.owner, job.project, layout.job_bytes(job.id), job.ended_at) for job in jobs]


def _event(job: Job, removal: Removal, clock: Clock) -> Event:
    return Event.of(
        LogsRemoved(reason=removal.reason, bytes=removal.job.bytes),
        job=job.id,
        attempt=job.attempt.number,
        time=clock.now(),
        owner=job.owner,
        project=job.project,
    )
