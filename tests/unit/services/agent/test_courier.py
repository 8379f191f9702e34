"""Fair turns, bounded memory, and what happens when the connection is lost between two chunks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from services.agent import courier as courier_module
from services.agent.courier import Courier, Times, at_once
from services.agent.domain.offsets import WINDOW_BYTES
from services.agent.domain.tail import Tail
from services.agent.replica import TailedFile
from services.agent.source import Source
from shared.errors import UnavailableError
from shared.logs_wire import CHUNK_MAX_BYTES, Chunk, FileRef, Kept, ReplicaRef


class Recorder:
    """A publisher that remembers, and breaks after so many chunks."""

    def __init__(self, breaks_after: int | None = None) -> None:
        self.chunks: list[Chunk] = []
        self.connected = True
        self._breaks_after = breaks_after

    async def publish(self, chunk: Chunk, file: int) -> None:
        if len(self.chunks) == self._breaks_after:
            self.connected = False
            raise UnavailableError("gone")
        self.chunks.append(chunk)


def tailed(directory: Path, index: int, size: int) -> TailedFile:
    (directory / str(index)).write_bytes(bytes(size))
    return TailedFile(
        Tail(FileRef(ReplicaRef("tj-a", 1, "worker", index)), "n-1"), Source(directory, str(index)), index
    )


def courier_to(recorder: Recorder) -> Courier:
    return Courier(recorder, Times(lambda: 0.0, lambda: 0), at_once)


async def test_a_huge_file_takes_its_turn_like_the_others(tmp_path: Path):
    files = [tailed(tmp_path, 0, 3 * WINDOW_BYTES), *(tailed(tmp_path, index, 10) for index in range(1, 40))]
    recorder = Recorder()
    courier = courier_to(recorder)
    await courier.look(files, check_paths=False)
    await courier.send(files)
    small = [at for at, chunk in enumerate(recorder.chunks) if chunk.file.replica.index > 0]
    assert len(small) == 39
    assert max(small) < 41, "all small files went in the first turn"


async def test_every_file_gets_as_much_as_the_others_when_all_are_large(tmp_path: Path):
    files = [tailed(tmp_path, index, 10 * CHUNK_MAX_BYTES) for index in range(20)]
    recorder = Recorder()
    courier = courier_to(recorder)
    await courier.look(files, check_paths=False)
    await courier.send(files)
    shares = Counter(chunk.file.replica.index for chunk in recorder.chunks)
    assert set(shares.values()) == {10}


async def test_over_all_files_only_so_much_is_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(courier_module, "OUTSTANDING_MAX_BYTES", 4 * CHUNK_MAX_BYTES)
    files = [tailed(tmp_path, index, WINDOW_BYTES) for index in range(3)]
    recorder = Recorder()
    courier = courier_to(recorder)
    await courier.look(files, check_paths=False)
    await courier.send(files)
    outstanding = sum(file.tail.offsets.outstanding_bytes for file in files)
    assert 4 * CHUNK_MAX_BYTES <= outstanding <= 6 * CHUNK_MAX_BYTES
    for file in files:
        file.tail.announced(Kept(file.tail.file, file.tail.offsets.sent), 0)
    await courier.send(files)
    assert sum(file.tail.offsets.outstanding_bytes for file in files) >= 4 * CHUNK_MAX_BYTES


async def test_a_chunk_that_could_not_be_sent_is_sent_again_from_kept(tmp_path: Path):
    file = tailed(tmp_path, 0, 5 * CHUNK_MAX_BYTES)
    recorder = Recorder(breaks_after=2)
    courier = courier_to(recorder)
    await courier.look([file], check_paths=False)
    await courier.send([file])
    assert len(recorder.chunks) == 2
    assert file.tail.offsets.sent == 0


async def test_a_file_that_began_anew_is_looked_at_again_at_once(tmp_path: Path):
    file = tailed(tmp_path, 0, 100)
    recorder = Recorder()
    courier = courier_to(recorder)
    await courier.look([file], check_paths=False)
    await courier.send([file])
    (tmp_path / "0").write_bytes(b"new")
    await courier.look([file], check_paths=False)
    assert file.tail.unsaved
    file.tail.unsaved = False
    await courier.send([file])
    assert recorder.chunks[-1].generation == 2
    assert recorder.chunks[-1].data.endswith(b"\nnew")
    file.source.close()
