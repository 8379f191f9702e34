"""What the logs of an attempt say, for a decision: waits until they are read to their ends, or long enough."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from services.watchdog.adapters.memory import Memory
from services.watchdog.domain.policy import Heard
from services.watchdog.domain.waiting import Patience
from services.watchdog.log_path import LogPath
from services.watchdog.scanning import PartitionScanner
from shared.clock import Clock
from shared.errors import UnavailableError
from shared.events import Progress
from shared.events import ReplicaRef as EventReplica
from shared.jobs import Job
from shared.logs_wire import ReplicaRef, partition_of

BACKLOG_WAIT_S: Final = 30.0
LOOK_S: Final = 1.0
CAUSE_WAIT_S: Final = 2.0


class Evidence:
    """The lines that were found, complete as far as they can be had."""

    def __init__(self, path: LogPath, scanners: Sequence[PartitionScanner], memory: Memory, clock: Clock) -> None:
        self._path = path
        self._scanners = scanners
        self._memory = memory
        self._clock = clock
        self._log = structlog.get_logger(service="watchdog")

    def heard(self, job: Job) -> Heard:
        """What the logs of the job's present attempt say."""
        key = job.id, job.attempt.number
        progress = self._memory.progress(*key)
        told = Progress(epoch=progress.epoch, step=progress.step) if progress else None
        return Heard(self._memory.found(*key), told, self._memory.checkpoint(*key))

    async def await_cause(self, job: Job, replicas: Sequence[EventReplica]) -> None:
        """Return once these logs are read to their ends, or a moment has passed: they decide nothing, only explain."""
        refs = _refs(job, replicas)
        scanner = self._scanners[partition_of(job.id)]
        await self._within(CAUSE_WAIT_S, scanner, lambda: not self._unread(refs))

    async def await_logs(self, job: Job, replicas: Sequence[EventReplica]) -> None:
        """Return once these logs are read to their ends, or were waited for long enough.

        Raises UnavailableError while what had piled up before this watchdog started is still being read.
        """
        refs = _refs(job, replicas)
        if not refs or not self._unread(refs):
            return
        scanner = self._scanners[partition_of(job.id)]
        if not await self._within(BACKLOG_WAIT_S, scanner, lambda: scanner.caught_up):
            raise UnavailableError(f"logs of job {job.id} that piled up are still being read")
        patience = Patience()
        while not (patience.is_over or await self._within(LOOK_S, scanner, lambda: not self._unread(refs))):
            if self._path.is_connected:
                patience = patience.after(LOOK_S, is_open=await self._path.is_open(scanner))
        if unread := sorted(f"{ref.role}-{ref.index}" for ref in self._unread(refs)):
            self._log.warning("decided_without_end_marks", job=job.id, replicas=unread[:20])

    def _unread(self, refs: set[ReplicaRef]) -> set[ReplicaRef]:
        return {ref for ref in refs if not self._memory.scan(ref).ended}

    async def _within(self, seconds: float, scanner: PartitionScanner, is_so: Callable[[], bool]) -> bool:
        """Whether something about the scanner becomes so within that time."""
        time_is_up = asyncio.create_task(self._clock.sleep(seconds))
        try:
            while not is_so():
                if time_is_up.done():
                    return False
                await asyncio.wait({scanner.next_change(), time_is_up}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            time_is_up.cancel()
        return True


def _refs(job: Job, replicas: Sequence[EventReplica]) -> set[ReplicaRef]:
    return {ReplicaRef(job.id, job.attempt.number, each.role, each.index) for each in replicas}
