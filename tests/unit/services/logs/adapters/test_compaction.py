"""Packing anew: the same bytes, lines and times, in fewer and smaller segments, wherever the process dies."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.logs.adapters import compaction as compaction_module
from services.logs.adapters import segments as segments_module
from services.logs.adapters.compaction import Group, next_group, pack_anew, remove_replaced, remove_unfinished
from services.logs.adapters.segment_files import Segment, in_order, parse_name
from services.logs.adapters.segments import Place, SegmentLog, Text
from services.logs.domain.filters import LiteralFilter
from services.logs.domain.lines import count_breaks
from services.logs.domain.marks import Marks
from tests.support.scratch import scratch
from tests.support.training_log import training_text

parts_lists = st.lists(st.binary(min_size=1, max_size=120), min_size=1, max_size=25)


@contextmanager
def small_sizes() -> Iterator[Path]:
    """Frames and segments of some bytes."""
    sizes = [(segments_module, "SEGMENT_BYTES", 300), (compaction_module, "FRAME_BYTES", 64)]
    with scratch() as directory, ExitStack() as stack:
        for module, name, size in [*sizes, (compaction_module, "TEXT_BYTES", 500)]:
            stack.enter_context(patch.object(module, name, size))
        yield directory / "log"


def written(directory: Path, parts: list[bytes], *, ended: bool) -> SegmentLog:
    log = SegmentLog(Place(directory))
    offset = 0
    for number, part in enumerate(parts):
        marks = Marks(((offset, 1000 * number),))
        log.append([Text(part, 1, 0, 1000 * number, 1000 * number + 500, marks)])
        offset += len(part)
    if ended:
        log.seal(ended=True)
    return log


def packed(log: SegmentLog) -> SegmentLog:
    while (group := next_group(log)) is not None:
        log.exchange(group.segments, pack_anew(log, group))
        remove_replaced(group)
    return log


@given(parts_lists, st.booleans())
def test_bytes_lines_and_end_are_the_same_and_are_found_after_a_restart(parts: list[bytes], ended: bool):
    with small_sizes() as directory:
        before = written(directory, parts, ended=ended)
        whole, snapshot = b"".join(parts), before.snapshot
        log = packed(before)
        for each in (log, SegmentLog(Place(directory), verify=True)):
            assert each.read(0, len(whole)) == whole
            assert (each.snapshot.size, each.snapshot.lines) == (len(whole), count_breaks(whole))
            assert (each.snapshot.ended, each.snapshot.ends_with_cr) == (ended, snapshot.ends_with_cr)
        names = [parse_name(path.name) for path in directory.iterdir()]
        if ended:
            assert all(name is not None and name.stop is not None for name in names)


@given(parts_lists, st.data())
def test_every_line_is_found_in_packed_and_in_other_segments(parts: list[bytes], data: st.DataObject):
    with small_sizes() as directory:
        log = written(directory, parts, ended=False)
        whole = b"".join(parts)
        line = data.draw(st.integers(0, count_breaks(whole)))
        for each in (log, packed(log)):
            offset, lines = each.place_of_line(line)
            assert lines == count_breaks(whole[:offset])
            assert lines < line or (offset, lines) == (0, 0)


@given(parts_lists, st.data())
def test_a_process_may_die_at_any_point_of_a_replacement(parts: list[bytes], data: st.DataObject):
    with small_sizes() as directory:
        log = written(directory, parts, ended=True)
        group = next_group(log)
        assert group is not None
        pack_anew(log, group)
        gone = data.draw(st.sets(st.sampled_from(group.segments)))
        for segment in gone:
            segment.path.unlink()
        (directory / "seg-x.zst.packing").touch()
        remove_unfinished(directory)
        again = SegmentLog(Place(directory), verify=True)
        assert again.read(0, 10**6) == b"".join(parts)
        assert again.snapshot.ended
        left = {path.name for path in directory.iterdir()}
        assert not [each for each in group.segments if each.offset < group.stop and each.path.name in left]


def test_readers_of_a_replaced_segment_go_on_in_the_new_one():
    with small_sizes() as directory:
        log = written(directory, [b"abc" * 50, b"def" * 50], ended=True)
        texts = log.texts(0, 300)
        assert next(texts)[1] == b"abc" * 50
        packed(log)
        assert b"".join(text for _, text in texts) == b"def" * 50


def test_who_only_looks_goes_on_in_the_new_one_too():
    with small_sizes() as directory:
        log = written(directory, [b"abc" * 50, b"def" * 50], ended=True)
        looking = SegmentLog(Place(directory), writable=False)
        packed(log)
        assert looking.read(0, 300) == b"abc" * 50 + b"def" * 50


def test_a_growing_log_is_packed_as_far_as_its_segments_are_full():
    with small_sizes() as directory:
        log = written(directory, [bytes([65 + n]) * 400 for n in range(3)], ended=False)
        log = packed(log)
        log.append([Text(b"more", 1, 0, 5, 6)])
        assert packed(log).read(0, 2000) == b"A" * 400 + b"B" * 400 + b"C" * 400 + b"more"


def test_times_are_found_in_packed_segments():
    with small_sizes() as directory:
        log = packed(written(directory, [bytes([65 + n]) * 3000 for n in range(6)], ended=True))
        for millis, offset in ((0, 0), (1000, 3000), (3000, 9000)):
            assert log.offset_since(millis) == offset
        assert log.offset_since(10**9) is None


def test_literals_across_the_border_of_frames_are_in_the_filter_of_the_second():
    with small_sizes() as directory:
        log = packed(written(directory, [b"." * 60 + b"need", b"le" + b"." * 60], ended=True))
        footer = log.reader.footer(log.snapshot.segments[0])
        assert footer is not None
        assert LiteralFilter(b"needle").may_be_in(footer.filters) == [False, True]


def test_a_literal_that_is_coloured_in_parts_is_in_the_filter():
    with small_sizes() as directory:
        log = packed(written(directory, [b"\x1b[31mERR\x1b[0mOR: bad"], ended=True))
        footer = log.reader.footer(log.snapshot.segments[0])
        assert footer is not None
        assert LiteralFilter(b"error").may_be_in(footer.filters) == [True]


def test_a_training_log_gets_smaller_than_a_tenth(tmp_path: Path):
    text = training_text(3, 1, 2 << 20)
    log = SegmentLog(Place(tmp_path / "log"))
    log.append([Text(text[at : at + 2**18], 1, 0, 1, 2) for at in range(0, len(text), 2**18)])
    log.seal(ended=True)
    assert stored_bytes(tmp_path) < len(text) / 8
    packed(log)
    assert stored_bytes(tmp_path) < len(text) / 10


def stored_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("seg-*"))


def test_a_disk_that_is_full_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch):
    def no_space(_path: Path) -> None:
        raise OSError(28, "No space left on device")

    with small_sizes() as directory:
        log = written(directory, [b"abc" * 50], ended=True)
        group = next_group(log)
        assert group is not None
        monkeypatch.setattr(compaction_module, "sync_file", no_space)
        with pytest.raises(OSError, match="No space"):
            pack_anew(log, group)
        remove_unfinished(directory)
        assert SegmentLog(Place(directory)).snapshot == log.snapshot


def test_a_log_that_is_gone_is_not_packed():
    with small_sizes() as directory:
        log = written(directory, [b"abc" * 50], ended=True)
        group = next_group(log)
        assert isinstance(group, Group)
        shutil.rmtree(directory)
        with pytest.raises(OSError, match="No such file"):
            pack_anew(log, group)


def test_of_segments_with_the_same_bytes_the_packed_one_counts():
    names = ["seg-000000000000000-000000000000.zst", "seg-000000000000100-000000000001.zst"]
    new = "seg-000000000000000-000000000000-000000000000200.zst"
    rest = "seg-000000000000200-000000000002.zst"
    segments = [segment_named(text) for text in (*names, rest, new)]
    kept, replaced = in_order(segments)
    assert [segment.name.text for segment in kept] == [new, rest]
    assert [segment.name.text for segment in replaced] == names


def segment_named(text: str) -> Segment:
    name = parse_name(text)
    assert name is not None
    return Segment(name, Path(text))
