"""Event files and samples go into the archive, too, where there is one: a look at all of them every minute.

Each instance copies those in the partitions that it holds. Jobs that ended long enough ago for everything of them to
have come are passed over once nothing was left to copy.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

import structlog

from services.logs.adapters.mirror import mirror
from services.logs.adapters.store import LogStore
from services.logs.ports import Archive
from services.logs.tidying import KnownJobs
from shared.clock import Clock
from shared.errors import TrainmasterError
from shared.jobs import Job
from shared.logs_wire import ReplicaRef

EVERY_S: Final = 60.0
QUIET_S: Final = 60.0
"""What was written to within this time is left for the next look."""
LATE: Final = timedelta(hours=1)
"""What agents ship of a job later than this after its end is copied after the next start of the service."""


class Mirroring:
    """The one who copies."""

    def __init__(self, store: LogStore, jobs: KnownJobs, clock: Clock) -> None:
        self._store = store
        self._jobs = jobs
        self._clock = clock
        self._done: set[str] = set()
        self._log = structlog.get_logger(service="logs")

    async def run(self) -> None:
        """Copy until cancelled."""
        await self._jobs.caught_up.wait()
        while True:
            try:
                await self.look()
            except (OSError, TrainmasterError) as error:
                self._log.warning("event_files_not_mirrored", reason=str(error))
            await self._clock.sleep(EVERY_S)

    async def look(self) -> None:
        """Copy what is due now."""
        layout, archive = self._store.layout, self._store.layout.archive
        if archive is None:
            return
        names = await asyncio.to_thread(layout.jobs)
        self._done.intersection_update(names)
        for name in names:
            job = self._jobs.get(name) if self._store.holds(name) and name not in self._done else None
            if job is None or job.deleted:
                continue
            replicas = await asyncio.to_thread(layout.replicas, job.id)
            left = [await self._mirror(replica, archive) for replica in replicas]
            if self._is_long_over(job) and not any(left):
                self._done.add(job.id)

    async def _mirror(self, replica: ReplicaRef, archive: Archive) -> bool:
        """Copy what is due of a replica; whether something is left."""
        quiet_since_s = self._clock.now().timestamp() - QUIET_S
        try:
            mirrored = await asyncio.to_thread(mirror, self._store.layout, replica, archive, quiet_since_s)
        except OSError as error:  # as where the job was deleted under way
            self._log.warning("event_files_not_mirrored", replica=replica.tokens, reason=str(error))
            return True
        if mirrored.copied:
            self._log.info("event_files_mirrored", replica=replica.tokens, files=mirrored.copied)
        return mirrored.left > 0

    def _is_long_over(self, job: Job) -> bool:
        return job.ended_at is not None and self._clock.now() - job.ended_at > LATE
