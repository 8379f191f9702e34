"""The files of one partition: chunks become durable here, then move into segments in the background.

`commit` decides about a batch of chunks (`services.logs.domain.positions`), makes what is new durable with one append
to the write-ahead log, puts event files' bytes in place, and only then lets readers see it. `run` moves full frames and
finished logs into segments; when enough write-ahead files are full, everything in them is stored and synced, and they
are removed. `recover` reads the write-ahead log after a start and decides about every chunk in it again.

Everything here happens in the event loop but disk work, which is done in threads, one piece at a time a kind.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from services.logs.adapters.compaction import remove_archived
from services.logs.adapters.disk import sync_directory
from services.logs.adapters.files import EventFile, StoredLog, open_event_file, open_log
from services.logs.adapters.layout import Layout
from services.logs.adapters.segment_files import Segment, SegmentReader
from services.logs.adapters.wal import DELETED, FILE_BYTES, Record, Spot, Wal, decode_chunk_record
from services.logs.domain.positions import Admission, Position, admit, announcement
from shared.errors import UnavailableError
from shared.logs_wire import Chunk, FileRef, Kept, ReplicaRef, chunk_headers, chunk_subject

_OLD_FILES_MAX: Final = 4
_SETTLED_MAX: Final = 256
_RETRY_S: Final = 5.0

StoredFile = StoredLog | EventFile
OnChange = Callable[[str], None]
Result = TypeVar("Result")


@dataclass(slots=True)
class _Batch:
    """What a batch of chunks does, before it is durable."""

    records: list[Record] = field(default_factory=list)
    taken: list[tuple[StoredFile, Admission, Chunk]] = field(default_factory=list)
    positions: dict[FileRef, Position] = field(default_factory=dict)
    answers: dict[FileRef, Kept] = field(default_factory=dict)

    def add(self, file: StoredFile, chunk: Chunk) -> None:
        """Decide about one more chunk."""
        before = self.positions.get(chunk.file, file.position)
        admission = admit(before, chunk)
        earlier = self.answers.get(chunk.file)
        gap = admission.effect == "gap" or (earlier is not None and earlier.gap)
        self.positions[chunk.file] = admission.position
        self.answers[chunk.file] = announcement(admission.position, chunk, gap=gap)
        if admission.changes:
            self.records.append(Record(chunk_subject(chunk.file.replica), chunk_headers(chunk), chunk.data))
            self.taken.append((file, admission, chunk))


class Partition:
    """One of the partitions; the only writer of its jobs' files."""

    def __init__(self, number: int, layout: Layout, on_change: OnChange, reader: SegmentReader | None = None) -> None:
        self.number = number
        self.recovered = asyncio.Event()
        self._layout = layout
        self._reader = reader or SegmentReader()
        self._on_change = on_change
        self._wal = Wal(layout.wal(number))
        self._logs: OrderedDict[ReplicaRef, StoredLog] = OrderedDict()
        self._event_files: dict[FileRef, EventFile] = {}
        self._deleted: set[str] = set()
        self._closed = False
        self._running: set[asyncio.Future[Any]] = set()
        self.to_pack: dict[ReplicaRef, None] = {}
        """Logs that may have segments to pack anew, in order; they stay in memory."""
        self._changing = asyncio.Lock()
        self._storing = asyncio.Lock()
        self._work = asyncio.Event()
        self._log = structlog.get_logger(service="logs", partition=number)

    async def recover(self) -> None:
        """Take in what the write-ahead log holds."""
        records = await self._in_thread(self._replay)
        if records:
            self._log.info("wal_replayed", records=records, files=len(self._wal.old))
        self.recovered.set()
        self._work.set()

    async def commit(self, chunks: Iterable[Chunk]) -> list[Kept]:
        """Make the chunks durable; gives what to announce. Raises OSError, and then nothing has changed."""
        async with self._changing:
            batch, answers = _Batch(), {}
            for chunk in chunks:
                if chunk.file.replica.job in self._deleted:
                    answers[chunk.file] = Kept(chunk.file, chunk.stop, chunk.end is not None, chunk.generation)
                else:
                    batch.add(await self._file(chunk.file), chunk)
            if batch.records:
                await self._take(batch)
        return [*answers.values(), *batch.answers.values()]

    async def log(self, replica: ReplicaRef) -> StoredLog:
        """The replica's log, also where nothing of it is stored."""
        await self.recovered.wait()
        found = self._logs.get(replica)
        if found is None:
            loaded = await self._in_thread(open_log, self._layout, replica, self._reader)
            found = self._logs.setdefault(replica, loaded)
            self._forget_settled()
        self._logs.move_to_end(replica)
        return found

    def known_logs(self, job: str) -> list[StoredLog]:
        """The logs of a job that are in memory; those that are written to always are."""
        return [log for replica, log in self._logs.items() if replica.job == job]

    async def exchange(self, log: StoredLog, old: Sequence[Segment], new: Segment) -> bool:
        """Let a segment stand for others that hold the same; false where the log or the partition is gone meanwhile."""
        async with self._storing:
            if self._closed or self._logs.get(log.replica) is not log:
                return False
            log.segments.exchange(old, new)
            return True

    async def delete(self, job: str) -> None:
        """Remove everything of the job; what still comes of it is taken and dropped.

        Raises UnavailableError where the archive does not answer: then something is left, and it must be tried again.
        """
        async with self._changing, self._storing:
            await self._in_thread(self._wal.append, [Record(DELETED + job)])
            await self._in_thread(self._remove_job, job)
        self._on_change(job)

    async def run(self) -> None:
        """Move bytes into segments, until cancelled."""
        while True:
            await self._work.wait()
            self._work.clear()
            try:
                await self._store()
            except OSError as error:
                self._log.error("storing_failed", error=str(error))
                await asyncio.sleep(_RETRY_S)
                self._work.set()

    async def close(self) -> None:
        """Let another process have the partition; what threads have in hand is finished first."""
        while self._running:
            await asyncio.wait(self._running)
        async with self._changing, self._storing:
            self._closed = True
        for log in self._logs.values():
            log.segments.writable = False  # those who still read it see what the next writer makes of the files
        self._wal.close()

    async def _in_thread(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Do work in a thread that `close` waits for, also where whoever waits for it is cancelled."""
        running = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return await asyncio.shield(running)

    async def _file(self, ref: FileRef) -> StoredFile:
        if ref.kind == "log":
            return await self.log(ref.replica)
        if ref not in self._event_files:
            self._event_files[ref] = await self._in_thread(open_event_file, self._layout, ref)
        return self._event_files[ref]

    async def _take(self, batch: _Batch) -> None:
        spots = await self._in_thread(self._persist, batch)
        for (file, admission, chunk), spot in zip(batch.taken, spots, strict=True):
            if isinstance(file, StoredLog):
                file.take(admission, chunk, spot)
                if file.wants_storing:
                    self._work.set()
            else:
                file.position = admission.position
        if self._old_files_are_due():
            self._work.set()
        for job in {chunk.file.replica.job for _, _, chunk in batch.taken}:
            self._on_change(job)

    def _persist(self, batch: _Batch) -> list[Spot]:
        spots = self._wal.append(batch.records)
        _write_event_files(batch.taken)
        return spots

    async def _store(self) -> None:
        for log in [log for log in self._logs.values() if log.wants_storing]:
            await self._store_log(log, everything=False)
        if self._old_files_are_due():
            await self._retire_old_files()
        self._forget_settled()

    async def _store_log(self, log: StoredLog, *, everything: bool) -> None:
        async with self._storing:
            if log.replica in self._logs:
                await self._in_thread(partial(log.store, everything=everything))
                log.forget_stored()
                if log.segments.has_loose_ends:
                    self.to_pack[log.replica] = None

    def _old_files_are_due(self) -> bool:
        old = self._wal.old
        return len(old) >= _OLD_FILES_MAX or sum(file.size for file in old) >= FILE_BYTES

    async def _retire_old_files(self) -> None:
        files = frozenset(self._wal.old)
        for log in [log for log in self._logs.values() if log.refers_to(files)]:
            await self._store_log(log, everything=True)
        async with self._storing:
            event_files = list(self._event_files.values())
            await self._in_thread(_sync, [log for log in self._logs.values() if log.segments.unsynced], event_files)
            self._wal.remove(tuple(files))
        self._event_files = {ref: file for ref, file in self._event_files.items() if not file.position.ended}

    def _forget_settled(self) -> None:
        settled = [
            replica
            for replica, log in self._logs.items()
            if log.settled and not log.segments.unsynced and replica not in self.to_pack
        ]
        for replica in settled[: max(0, len(settled) - _SETTLED_MAX)]:
            del self._logs[replica]

    def _remove_job(self, job: str) -> None:
        self._deleted.add(job)
        for replica in [replica for replica in self._logs if replica.job == job]:
            del self._logs[replica]
        for ref in [ref for ref in self._event_files if ref.replica.job == job]:
            del self._event_files[ref]
        for replica in [replica for replica in self.to_pack if replica.job == job]:
            del self.to_pack[replica]
        remove_archived(self._reader.archive, job)
        shutil.rmtree(self._layout.job(job), ignore_errors=True)

    def _replay(self) -> int:
        count = 0
        for record, spot in self._wal.replay():
            count += 1
            if record.subject.startswith(DELETED):
                with contextlib.suppress(UnavailableError):  # what is left is found and removed later
                    self._remove_job(record.subject.removeprefix(DELETED))
            else:
                self._replay_chunk(decode_chunk_record(record), spot)
        return count

    def _replay_chunk(self, chunk: Chunk, spot: Spot) -> None:
        if chunk.file.kind == "log":
            replica = chunk.file.replica
            log = self._logs.get(replica) or open_log(self._layout, replica, self._reader, verify=True)
            self._logs[replica] = log
            log.take(admit(log.position, chunk), chunk, spot)
            return
        file = self._event_files.get(chunk.file) or open_event_file(self._layout, chunk.file)
        self._event_files[chunk.file] = file
        # Bytes may have been in place and not on disk when power was lost; they are put there again in any case.
        file.write(chunk.generation, chunk.offset, chunk.data)
        file.position = admit(file.position, chunk).position


def _write_event_files(taken: Sequence[tuple[StoredFile, Admission, Chunk]]) -> None:
    for file, admission, _ in taken:
        if isinstance(file, EventFile):
            position = admission.position
            file.write(position.generation, position.size - len(admission.data), admission.data)


def _sync(logs: Sequence[StoredLog], event_files: Sequence[EventFile]) -> None:
    directories = {directory for log in logs for directory in log.segments.sync_content()}
    for directory in directories:  # replicas of a job have most of theirs in common
        sync_directory(directory)
    for log in logs:
        log.segments.synced()
    for file in event_files:
        file.sync()
