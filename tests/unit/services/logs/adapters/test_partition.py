"""A partition: what was kept is there after any crash, byte for byte, wherever it was at that moment."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.logs.adapters import files as files_module
from services.logs.adapters import partition as partition_module
from services.logs.adapters import segments as segments_module
from services.logs.adapters import wal as wal_module
from services.logs.adapters.layout import Layout
from services.logs.adapters.partition import Partition
from services.logs.domain import extents as extents_module
from shared.logs_wire import Chunk, FileRef, Kept, ReplicaRef
from tests.support.scratch import scratch

JOB = "tj-a"
LOG = FileRef(ReplicaRef(JOB, 1, "worker", 0))
OTHER = FileRef(ReplicaRef(JOB, 1, "worker", 1))
EVENTS = FileRef(LOG.replica, "tb", "train/a.tfevents")


@contextmanager
def small_sizes() -> Iterator[None]:
    """Frames, segments and write-ahead files of a few bytes, so that small tests see all that happens to large ones."""
    sizes = [
        (extents_module, "FRAME_BYTES", 64),
        (files_module, "FRAME_BYTES", 64),
        (segments_module, "SEGMENT_BYTES", 500),
        (wal_module, "FILE_BYTES", 1500),
        (partition_module, "FILE_BYTES", 1500),
    ]
    with ExitStack() as stack:
        for module, name, size in sizes:
            stack.enter_context(patch.object(module, name, size))
        yield


async def opened(root: Path, changed: list[str] | None = None) -> Partition:
    partition = Partition(3, Layout(root), (changed if changed is not None else []).append)
    await partition.recover()
    return partition


async def content(partition: Partition, ref: FileRef) -> bytes:
    log = await partition.log(ref.replica)
    return log.read(0, log.size)


async def keep(partition: Partition, *chunks: Chunk) -> dict[FileRef, Kept]:
    return {kept.file: kept for kept in await partition.commit(chunks)}


async def store(partition: Partition) -> None:
    await partition._store()


@pytest.fixture
async def partition(tmp_path: Path):
    with small_sizes():
        partition = await opened(tmp_path)
        yield partition
        await partition.close()


async def test_kept_bytes_can_be_read_before_and_after_they_are_stored(partition: Partition):
    kept = await keep(partition, Chunk(LOG, 0, b"a" * 100), Chunk(LOG, 100, b"b" * 10))
    assert kept == {LOG: Kept(LOG, 110)}
    log = await partition.log(LOG.replica)
    assert log.unstored_bytes == 110
    await store(partition)
    assert log.unstored_bytes == 110 - 64
    assert await content(partition, LOG) == b"a" * 100 + b"b" * 10


async def test_the_end_seals_the_log(partition: Partition):
    kept = await keep(partition, Chunk(LOG, 0, b"abc"), Chunk(LOG, 3, end=3))
    assert kept == {LOG: Kept(LOG, 3, ended=True)}
    await store(partition)
    log = await partition.log(LOG.replica)
    assert log.settled
    assert log.extents == []


async def test_a_gap_is_announced_and_nothing_of_it_kept(partition: Partition):
    kept = await keep(partition, Chunk(LOG, 0, b"abc"), Chunk(LOG, 5, b"x"), Chunk(OTHER, 1, b"x"))
    assert kept == {LOG: Kept(LOG, 3, gap=True), OTHER: Kept(OTHER, 0, gap=True)}
    assert await content(partition, LOG) == b"abc"


async def test_a_repeat_is_announced_and_not_written(partition: Partition, tmp_path: Path):
    await keep(partition, Chunk(LOG, 0, b"abc"))
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.wal"))
    assert await keep(partition, Chunk(LOG, 0, b"abc")) == {LOG: Kept(LOG, 3)}
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.wal")) == size


async def test_event_files_are_in_place_as_soon_as_they_are_kept(partition: Partition, tmp_path: Path):
    kept = await keep(partition, Chunk(EVENTS, 0, b"abc"), Chunk(EVENTS, 3, b"def"), Chunk(EVENTS, 6, end=6))
    assert kept == {EVENTS: Kept(EVENTS, 6, ended=True)}
    assert (tmp_path / "store/tj-a/1/worker/0/tb/train/a.tfevents").read_bytes() == b"abcdef"
    await keep(partition, Chunk(EVENTS, 0, b"new", generation=2))
    assert (tmp_path / "store/tj-a/1/worker/0/tb.2/train/a.tfevents").read_bytes() == b"new"


async def test_an_event_file_that_cannot_be_is_dropped_and_the_rest_goes_on(partition: Partition):
    await keep(partition, Chunk(EVENTS, 0, b"abc"))
    below = FileRef(LOG.replica, "tb", "train/a.tfevents/below.tfevents")
    kept = await keep(partition, Chunk(below, 0, b"abc"), Chunk(LOG, 0, b"log"))
    assert kept == {below: Kept(below, 3), LOG: Kept(LOG, 3)}


async def test_a_disk_that_takes_nothing_changes_nothing(partition: Partition, monkeypatch: pytest.MonkeyPatch):
    await keep(partition, Chunk(LOG, 0, b"abc"))
    monkeypatch.setattr(os, "fdatasync", _no_space)
    with pytest.raises(OSError, match="no space"):
        await keep(partition, Chunk(LOG, 3, b"def"), Chunk(EVENTS, 0, b"x"))
    monkeypatch.undo()
    assert await content(partition, LOG) == b"abc"
    assert await keep(partition, Chunk(LOG, 3, b"def")) == {LOG: Kept(LOG, 6)}
    assert await content(partition, LOG) == b"abcdef"


def _no_space(_fd: int) -> None:
    raise OSError("no space")


async def test_old_write_ahead_files_go_when_all_in_them_is_stored(partition: Partition, tmp_path: Path):
    for number in range(40):
        await keep(partition, Chunk(LOG, number * 100, bytes([number]) * 100), Chunk(OTHER, number, b"x"))
    assert len(list(tmp_path.rglob("*.wal"))) > 2
    await store(partition)
    assert len(list(tmp_path.rglob("*.wal"))) <= 1
    assert await content(partition, LOG) == b"".join(bytes([number]) * 100 for number in range(40))
    assert await content(partition, OTHER) == b"x" * 40


async def test_followers_are_told_of_jobs_that_changed(tmp_path: Path):
    changed: list[str] = []
    partition = await opened(tmp_path, changed)
    await keep(partition, Chunk(LOG, 0, b"abc"), Chunk(OTHER, 0, b"abc"))
    await keep(partition, Chunk(LOG, 0, b"abc"))
    assert changed == [JOB]
    await partition.close()


async def test_a_deleted_job_is_gone_and_does_not_come_back(tmp_path: Path):
    partition = await opened(tmp_path)
    await keep(partition, Chunk(LOG, 0, b"abc"), Chunk(EVENTS, 0, b"abc"))
    await partition.delete(JOB)
    assert not (tmp_path / "store" / JOB).exists()
    late = await keep(partition, Chunk(LOG, 3, b"late"), Chunk(OTHER, 7, end=7))
    assert late == {LOG: Kept(LOG, 7), OTHER: Kept(OTHER, 7, ended=True)}
    await partition.close()
    again = await opened(tmp_path)
    assert not (tmp_path / "store" / JOB).exists()
    assert await content(again, LOG) == b""
    await again.close()


async def test_complete_logs_are_forgotten_when_there_are_many(partition: Partition, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(partition_module, "_SETTLED_MAX", 2)
    refs = [FileRef(ReplicaRef(JOB, 1, "worker", index)) for index in range(10)]
    for ref in refs:
        await keep(partition, Chunk(ref, 0, bytes(300)), Chunk(ref, 300, end=300))
    partition._wal.rotate()
    await store(partition)
    assert set(partition.to_pack) == {ref.replica for ref in refs}
    partition.to_pack.clear()
    await store(partition)
    assert len(partition.known_logs(JOB)) == 2
    for ref in refs:
        assert await content(partition, ref) == bytes(300)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("log"), st.integers(1, 150)),
        st.tuples(st.just("other"), st.integers(1, 20)),
        st.tuples(st.just("events"), st.integers(1, 50)),
        st.tuples(st.just("anew"), st.integers(1, 30)),
        st.tuples(st.just("store"), st.just(0)),
        st.tuples(st.just("crash"), st.integers(0, 1000)),
        st.tuples(st.just("power"), st.integers(0, 1000)),
    ),
    min_size=1,
    max_size=40,
)


class _Model:
    """What must be there."""

    def __init__(self) -> None:
        self.logs = {LOG: b"", OTHER: b""}
        self.base = {LOG: 0, OTHER: 0}
        self.generation = {LOG: 1, OTHER: 1}
        self.events = b""
        self.letter = 0

    def chunk(self, ref: FileRef, length: int, *, anew: bool = False) -> Chunk:
        self.letter = (self.letter + 1) % 256
        data = bytes([self.letter]) * length
        if ref == EVENTS:
            self.events += data
            return Chunk(ref, len(self.events) - length, data)
        if anew:
            self.base[ref], self.generation[ref] = len(self.logs[ref]), self.generation[ref] + 1
        self.logs[ref] += data
        offset = len(self.logs[ref]) - length - self.base[ref]
        return Chunk(ref, offset, data, self.generation[ref], times=((offset, 1000),))


@settings(max_examples=60, deadline=None)
@given(steps)
def test_whatever_happens_all_that_was_kept_is_there(given_steps: list[tuple[str, int]]):
    with scratch() as root, small_sizes():
        asyncio.run(_play(root, given_steps))


async def _play(root: Path, given_steps: list[tuple[str, int]]) -> None:
    partition, model, synced = await opened(root), _Model(), dict[Path, int]()
    for kind, amount in given_steps:
        match kind:
            case "store":
                await store(partition)
                _note_synced(root, partition, synced)
            case "crash" | "power":
                await partition.close()
                _tear_write_ahead_log(root, amount)
                if kind == "power":
                    _lose_what_was_not_synced(root, synced, amount)
                partition = await opened(root)
            case _:
                refs: dict[str, Any] = {"log": LOG, "other": OTHER, "events": EVENTS, "anew": LOG}
                chunk = model.chunk(refs[kind], amount, anew=kind == "anew")
                (kept,) = await partition.commit([chunk])
                assert (kept.kept, kept.gap) == (chunk.stop, False)
        for ref, expected in model.logs.items():
            assert await content(partition, ref) == expected
        path = root / "store/tj-a/1/worker/0/tb/train/a.tfevents"
        assert (path.read_bytes() if path.exists() else b"") == model.events
    await partition.close()


def _tear_write_ahead_log(root: Path, amount: int) -> None:
    """Some bytes of a record that was being written."""
    files = sorted(root.rglob("*.wal"))
    if files:
        with files[-1].open("ab") as file:
            file.write(bytes([amount % 256]) * (amount % 50))


def _note_synced(root: Path, partition: Partition, synced: dict[Path, int]) -> None:
    """Sizes of the files that a loss of power cannot harm."""
    unsynced = {path for file in partition._event_files.values() for path in file.unsynced}
    unsynced |= {log.segments.directory for log in partition.known_logs(JOB) if log.segments.unsynced}
    for path in (root / "store").rglob("*"):
        if path.is_file() and path not in unsynced and path.parent not in unsynced:
            synced[path] = path.stat().st_size


def _lose_what_was_not_synced(root: Path, synced: dict[Path, int], amount: int) -> None:
    """Files lose what was written behind their synced part, all of it or some."""
    for path in (root / "store").rglob("*"):
        if path.is_file():
            safe = synced.get(path, 0)
            os.truncate(path, safe + (path.stat().st_size - safe) * amount // 1000)
