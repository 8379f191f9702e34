"""Segment files: any range can be read, all is known after a restart, and a torn end is cut off."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from services.logs.adapters import segments as segments_module
from services.logs.adapters.segments import Place, SegmentLog, Text
from services.logs.domain.lines import count_breaks
from tests.support.scratch import scratch

INCOMPRESSIBLE = bytes(32 + 37 * n * n % 95 for n in range(200)) + b"\n"
texts = st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=20)


@contextmanager
def small_segments(size: int = 300) -> Iterator[Path]:
    with scratch() as directory, patch.object(segments_module, "SEGMENT_BYTES", size):
        yield directory / "log"


def opened(directory: Path, *, verify: bool = False) -> SegmentLog:
    return SegmentLog(Place(directory), verify=verify)


def text(data: bytes, generation: int = 1, base: int = 0) -> Text:
    return Text(data, generation, base, 1000, 2000)


def stored(log: SegmentLog) -> bytes:
    return log.read(0, log.snapshot.size)


@given(texts, st.data())
def test_any_range_is_read_as_it_was_written(parts: list[bytes], data: st.DataObject):
    with small_segments() as directory:
        log = opened(directory)
        log.append([text(part) for part in parts])
        whole = b"".join(parts)
        start = data.draw(st.integers(0, len(whole)))
        stop = data.draw(st.integers(start, len(whole) + 10))
        assert log.read(start, stop) == whole[start:stop]


@given(texts, st.integers(0, 19), st.booleans())
def test_everything_is_known_again_after_a_restart(parts: list[bytes], restart_after: int, ended: bool):
    with small_segments() as directory:
        log = opened(directory)
        for number, part in enumerate(parts):
            log.append([text(part, number + 1, 7)])
            if number == restart_after:
                log = opened(directory, verify=True)
        if ended:
            log.seal(ended=True)
        again = opened(directory)
        assert again.snapshot == log.snapshot
        assert stored(again) == b"".join(parts)
        assert again.snapshot.lines == count_breaks(b"".join(parts))
        assert (again.snapshot.generation, again.snapshot.base) == (len(parts), 7)
        assert again.snapshot.ended == ended


@given(texts, st.data())
def test_a_torn_end_is_cut_off_at_a_frame(parts: list[bytes], data: st.DataObject):
    with small_segments(10**6) as directory:
        log = opened(directory)
        log.append([text(part) for part in parts])
        (path,) = directory.glob("seg-*")
        os.truncate(path, data.draw(st.integers(0, path.stat().st_size)))
        with path.open("ab") as file:
            file.write(data.draw(st.binary(max_size=100)))
        again = opened(directory, verify=True)
        whole = b"".join(parts)
        assert whole.startswith(stored(again))
        rest = whole[again.snapshot.size :]
        again.append([text(rest)] if rest else [])
        again.seal(ended=True)
        assert stored(opened(directory, verify=True)) == whole


@given(texts, st.data())
def test_an_end_that_was_not_on_disk_when_power_was_lost_is_found_out(parts: list[bytes], data: st.DataObject):
    """The footer is there, a frame before it is not: possible, because the end of a log waits for no sync."""
    with small_segments(10**6) as directory:
        log = opened(directory)
        log.append([text(part) for part in parts])
        frames = log.snapshot.segments[-1].frames
        assert frames is not None
        log.seal(ended=True)
        (path,) = directory.glob("seg-*")
        lost = data.draw(st.integers(0, len(parts) - 1))
        with path.open("r+b") as file:
            file.seek(frames[lost].at)
            file.write(bytes(frames[lost].frame.packed_bytes))
        again = opened(directory, verify=True)
        assert not again.snapshot.ended
        assert stored(again) == b"".join(parts[:lost])


def test_full_segments_are_sealed_and_named_by_offset_and_line():
    with small_segments(100) as directory:
        log = opened(directory)
        for _ in range(3):
            log.append([text(INCOMPRESSIBLE)])
        names = sorted(path.name for path in directory.glob("seg-*"))
        assert names == [f"seg-{201 * n:015d}-{n:012d}.zst" for n in range(3)]
        assert log.snapshot.sealed()


def test_a_log_without_a_byte_can_be_complete():
    with small_segments() as directory:
        log = opened(directory)
        log.seal(ended=True)
        again = opened(directory)
        assert (again.snapshot.size, again.snapshot.ended) == (0, True)


def test_an_end_behind_a_full_segment_is_known():
    with small_segments(1) as directory:
        log = opened(directory)
        log.append([text(b"abc", 2, 1)])
        log.seal(ended=True)
        again = opened(directory)
        assert (again.snapshot.size, again.snapshot.ended, again.snapshot.generation) == (3, True, 2)
        assert stored(again) == b"abc"


def test_a_complete_log_that_begins_anew_is_not_complete():
    with small_segments() as directory:
        log = opened(directory)
        log.append([text(b"abc")])
        log.seal(ended=True)
        log.append([text(b"def", 2, 3)])
        assert not log.snapshot.ended
        again = opened(directory)
        assert not again.snapshot.ended
        assert stored(again) == b"abcdef"


def test_a_segment_is_compressed_text_for_every_tool():
    with small_segments(10**6) as directory:
        log = opened(directory)
        log.append([text(b"step 1 loss 0.5\n" * 100), text(b"step 2 loss 0.4\n" * 100)])
        log.seal(ended=True)
        (path,) = directory.glob("seg-*")
        with path.open("rb") as file:
            content = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()
        assert content == stored(log)
        assert path.stat().st_size < len(content) / 8


def test_syncing_what_was_synced_does_nothing(monkeypatch: pytest.MonkeyPatch):
    with small_segments() as directory:
        log = opened(directory)
        log.append([text(b"abc")])
        assert log.unsynced
        log.sync()
        assert not log.unsynced
        monkeypatch.setattr(os, "fdatasync", pytest.fail)
        log.sync()
