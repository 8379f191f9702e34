"""A partition that another instance of the service writes: its files are read as they grow.

What the other has made durable is in the segments and in the write-ahead log, which both lie in the directory that the
instances share. `refresh` reads on in the write-ahead log, and applies what it finds to the logs that are being read;
for the others it remembers where their records are. When a write-ahead file is gone, all of it is in segments, and the
logs are looked at anew there. Thus every instance answers for every job, also while the writer of a partition is away.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Final
from weakref import WeakValueDictionary

from services.logs.adapters.files import StoredLog, open_log
from services.logs.adapters.layout import Layout
from services.logs.adapters.segment_files import SegmentReader
from services.logs.adapters.wal import DELETED, Record, Spot, WalFile, decode_chunk_record, records_from, wal_files
from services.logs.domain.positions import admit
from shared.logs_wire import Chunk, ReplicaRef

_FRESH_S: Final = 0.05

Found = tuple[Chunk, Spot]


class PartitionView:
    """One partition, for reading."""

    def __init__(self, number: int, layout: Layout, reader: SegmentReader, wake: Callable[[str], None]) -> None:
        self.number = number
        self._layout = layout
        self._reader = reader
        self._wake = wake
        self._logs: WeakValueDictionary[ReplicaRef, StoredLog] = WeakValueDictionary()
        self._records: dict[ReplicaRef, list[Found]] = {}
        self._files: dict[int, WalFile] = {}
        self._read_to: dict[int, int] = {}
        self._refreshing = asyncio.Lock()
        self._applying = threading.Lock()
        self._refreshed_at_s = -1.0

    async def log(self, replica: ReplicaRef) -> StoredLog:
        """The replica's log as far as it is durable."""
        await self.refresh()
        return await asyncio.to_thread(self._log, replica)

    def known_logs(self, job: str) -> list[StoredLog]:
        """The logs of a job of which something was written lately."""
        return [self._log(replica) for replica in list(self._records) if replica.job == job]

    async def refresh(self) -> None:
        """Take in what was written since the last time."""
        async with self._refreshing:
            now_s = asyncio.get_running_loop().time()
            if now_s - self._refreshed_at_s < _FRESH_S:
                return
            changed = await asyncio.to_thread(self._read_on_alone)
            self._refreshed_at_s = now_s
        for job in changed:
            self._wake(job)

    def _log(self, replica: ReplicaRef) -> StoredLog:
        with self._applying:
            known = self._logs.get(replica)
            if known is not None:
                return known
            log = open_log(self._layout, replica, self._reader, writable=False)
            for chunk, spot in self._records.get(replica, ()):
                _apply(log, chunk, spot)
            self._logs[replica] = log
            return log

    def _read_on_alone(self) -> set[str]:
        with self._applying:
            return self._read_on()

    def _read_on(self) -> set[str]:
        """Read new records; gives the jobs that they are of."""
        present = dict(wal_files(self._layout.wal(self.number)))
        changed: set[str] = set()
        for number in sorted({*self._files, *present}):
            if number not in self._files:
                try:
                    self._files[number] = WalFile(present[number], number, writable=False)
                except FileNotFoundError:
                    continue
            changed |= self._read_file(number)
        gone = [number for number in self._files if number not in present]
        for number in gone:
            self._forget(number)
        return changed

    def _read_file(self, number: int) -> set[str]:
        changed: set[str] = set()
        for record, spot, behind in records_from(self._files[number], self._read_to.get(number, 0)):
            self._read_to[number] = behind
            changed.add(self._take(record, spot))
        return changed - {""}

    def _take(self, record: Record, spot: Spot) -> str:
        """Apply a record; gives the job that it changed."""
        if record.subject.startswith(DELETED):
            job = record.subject.removeprefix(DELETED)
            for replica in [replica for replica in self._records if replica.job == job]:
                del self._records[replica]
            return job
        chunk = decode_chunk_record(record)
        if chunk.file.kind != "log":
            return chunk.file.replica.job
        self._records.setdefault(chunk.file.replica, []).append((chunk, spot))
        log = self._logs.get(chunk.file.replica)
        if log is not None:
            _apply(log, chunk, spot)
        return chunk.file.replica.job

    def _forget(self, number: int) -> None:
        """A file is gone: everything in it is in segments now."""
        file = self._files.pop(number)
        self._read_to.pop(number, None)
        for replica, records in list(self._records.items()):
            left = [found for found in records if found[1].file is not file]
            if left:
                self._records[replica] = left
            else:
                del self._records[replica]
        for log in list(self._logs.values()):
            log.renew()


def _apply(log: StoredLog, chunk: Chunk, spot: Spot) -> None:
    admission = admit(log.position, chunk)
    if admission.effect == "gap":
        log.renew()  # what is missing was in a file that came and went unseen
        admission = admit(log.position, chunk)
    if admission.changes:
        log.take(admission, chunk, spot)
