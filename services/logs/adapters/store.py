"""All partitions together: where chunks of a job go, and where its logs are read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from services.logs.adapters.bells import Bells
from services.logs.adapters.compactor import Compactor
from services.logs.adapters.files import StoredLog
from services.logs.adapters.layout import Layout
from services.logs.adapters.partition import Partition
from services.logs.adapters.segment_files import SegmentReader
from services.logs.ports import Archive
from shared.logs_wire import LOG_PARTITIONS, ReplicaRef, partition_of

_READ_HERE_BYTES: Final = 64 * 1024


class LogStore:
    """The logs and event files of all jobs."""

    def __init__(self, root: Path, archive: Archive | None = None) -> None:
        self.bells = Bells()
        self.layout = Layout(root, archive)
        reader = SegmentReader(archive)
        self.partitions = tuple(
            Partition(number, self.layout, self.bells.ring, reader) for number in range(LOG_PARTITIONS)
        )
        self.compactor = Compactor(self.layout, lambda: self.partitions)

    async def log(self, replica: ReplicaRef) -> StoredLog:
        """The log of a replica, also where there is nothing of it."""
        return await self._partition(replica.job).log(replica)

    async def logs(self, job: str, attempt: int | None = None) -> list[StoredLog]:
        """The logs of a job that have something, or are expected to have."""
        partition = self._partition(job)
        await partition.recovered.wait()
        stored = await asyncio.to_thread(self.layout.replicas, job)
        replicas = stored | {log.replica for log in partition.known_logs(job)}
        return [await partition.log(replica) for replica in sorted(replicas) if attempt in (None, replica.attempt)]

    def known_logs(self, job: str) -> list[StoredLog]:
        """The logs of a job that were written to lately, without a look at the disk."""
        return self._partition(job).known_logs(job)

    async def read(self, log: StoredLog, start: int, stop: int) -> bytes:
        """Bytes of a range, as far as there are any; what was just written is read where the loop stands."""
        if log.is_at_hand(start) and stop - start <= _READ_HERE_BYTES:
            return log.read(start, stop)
        return await asyncio.to_thread(log.read, start, stop)

    async def delete(self, job: str) -> None:
        """Remove everything of a job."""
        partition = self._partition(job)
        await partition.recovered.wait()
        await partition.delete(job)

    def close(self) -> None:
        """Let another process have the directory."""
        for partition in self.partitions:
            partition.close()

    def _partition(self, job: str) -> Partition:
        return self.partitions[partition_of(job)]
