"""All partitions together: which of them this instance writes, and where the logs of a job are read.

What this instance writes it reads from memory and files; the rest it reads from the files alone (`view`). `epoch`
counts the changes of that: whoever holds a log over a longer time asks for it anew when it has changed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from services.logs.adapters.archive_index import take_down
from services.logs.adapters.bells import Bells
from services.logs.adapters.compactor import Compactor
from services.logs.adapters.files import StoredLog
from services.logs.adapters.layout import Layout
from services.logs.adapters.partition import Partition
from services.logs.adapters.segment_files import SegmentReader
from services.logs.adapters.view import PartitionView
from services.logs.ports import Archive
from shared.errors import UnavailableError
from shared.logs_wire import LOG_PARTITIONS, ReplicaRef, partition_of

_READ_HERE_BYTES: Final = 64 * 1024
_LOOK_S: Final = 0.1


class LogStore:
    """The logs and event files of all jobs."""

    def __init__(self, root: Path, archive: Archive | None = None) -> None:
        self.bells = Bells()
        self.layout = Layout(root, archive)
        self.epoch = 0
        self.held: dict[int, Partition] = {}
        self._reader = SegmentReader(archive)
        self._views = tuple(
            PartitionView(number, self.layout, self._reader, self.bells.wake) for number in range(LOG_PARTITIONS)
        )
        self.compactor = Compactor(self.layout, lambda: list(self.held.values()))

    async def prepare(self, archive_name: str) -> int:
        """Know what is in the archive; needed once. Raises UnavailableError."""
        return await asyncio.to_thread(take_down, self.layout, self._reader, archive_name)

    def hold(self, number: int) -> Partition | None:
        """Become the writer of a partition; None while another instance is."""
        try:
            partition = Partition(number, self.layout, self.bells.ring, self._reader)
        except UnavailableError:
            return None
        self.held[number] = partition
        self.epoch += 1
        return partition

    async def let_go(self, number: int) -> None:
        """Leave a partition to another instance."""
        partition = self.held.pop(number)
        await partition.close()
        self.epoch += 1

    async def log(self, replica: ReplicaRef) -> StoredLog:
        """The log of a replica, also where there is nothing of it."""
        return await self._partition(replica.job).log(replica)

    async def logs(self, job: str, attempt: int | None = None) -> list[StoredLog]:
        """The logs of a job that have something, or are expected to have."""
        partition = self._partition(job)
        if isinstance(partition, Partition):
            await partition.recovered.wait()
        else:
            await partition.refresh()
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

    def holds(self, job: str) -> bool:
        """Whether this instance writes the job's files."""
        return partition_of(job) in self.held

    async def delete(self, job: str) -> None:
        """Remove everything of a job whose files this instance writes. Raises UnavailableError, then try again."""
        partition = self.held[partition_of(job)]
        await partition.recovered.wait()
        await partition.delete(job)

    async def watch(self) -> None:
        """Notice for followers what other instances write, until cancelled."""
        while True:
            numbers = {partition_of(job) for job in self.bells.awaited()} - self.held.keys()
            for number in numbers:
                await self._views[number].refresh()
            await asyncio.sleep(_LOOK_S)

    async def close(self) -> None:
        """Let others have everything."""
        for number in list(self.held):
            await self.let_go(number)

    def _partition(self, job: str) -> Partition | PartitionView:
        number = partition_of(job)
        return self.held.get(number) or self._views[number]
