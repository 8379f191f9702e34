"""Event files and samples go into the archive, too, where there is one: a look at all of them every minute.

Each instance copies those in the partitions that it holds. Replicas of ended jobs are passed over once nothing of them
was left to copy.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from services.logs.adapters.mirror import mirror
from services.logs.adapters.store import LogStore
from services.logs.tidying import KnownJobs
from shared.clock import Clock
from shared.errors import TrainmasterError
from shared.logs_wire import ReplicaRef

EVERY_S: Final = 60.0
QUIET_S: Final = 60.0
"""What was written to within this time is left for the next look."""


class Mirroring:
    """The one who copies."""

    def __init__(self, store: LogStore, jobs: KnownJobs, clock: Clock) -> None:
        self._store = store
        self._jobs = jobs
        self._clock = clock
        self._done: set[ReplicaRef] = set()
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
        layout = self._store.layout
        if layout.archive is None:
            return
        names = await asyncio.to_thread(layout.jobs)
        for job in [job for name in names if self._store.holds(name) and (job := self._jobs.get(name))]:
            for replica in await asyncio.to_thread(layout.replicas, job.id):
                if replica not in self._done and not job.deleted:
                    await self._mirror(replica, is_over=job.ended)

    async def _mirror(self, replica: ReplicaRef, *, is_over: bool) -> None:
        layout, quiet_since_s = self._store.layout, self._clock.now().timestamp() - QUIET_S
        if layout.archive is None:
            return
        try:
            mirrored = await asyncio.to_thread(mirror, layout, replica, layout.archive, quiet_since_s)
        except OSError as error:  # as where the job was deleted under way
            self._log.warning("event_files_not_mirrored", replica=replica.tokens, reason=str(error))
            return
        if mirrored.copied:
            self._log.info("event_files_mirrored", replica=replica.tokens, files=mirrored.copied)
        if is_over and not mirrored.left:
            self._done.add(replica)
