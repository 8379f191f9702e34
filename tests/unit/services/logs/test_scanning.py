"""Searching a log finds what a look at every line finds, wherever its bytes are, piece by piece and from any place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st

from services.logs import scanning as scanning_module
from services.logs.adapters import compaction as compaction_module
from services.logs.adapters import files as files_module
from services.logs.adapters import segment_files as segment_files_module
from services.logs.adapters import segments as segments_module
from services.logs.adapters.compaction import next_group, pack_anew, remove_replaced
from services.logs.adapters.files import StoredLog, open_log
from services.logs.adapters.layout import Layout
from services.logs.adapters.segment_files import SegmentReader
from services.logs.adapters.wal import Record, Spot, Wal
from services.logs.domain import extents as extents_module
from services.logs.domain.matching import Pattern, matcher_of
from services.logs.domain.positions import admit
from services.logs.scanning import Hit, TimeRange, scan_piece
from shared.logs_wire import Chunk, FileRef, ReplicaRef
from tests.support.scratch import scratch

REPLICA = ReplicaRef("tj-a", 1, "worker", 0)
words = st.sampled_from([b"needle", b"straw", b"need", b"le", b"\n", b"\n", b"\r\n", b"\x1b[1m", b"12", b" "])
texts = st.lists(words, min_size=1, max_size=120).map(b"".join)


@contextmanager
def small_sizes() -> Iterator[Path]:
    """Frames of 32 bytes, so that nearly every line crosses a border."""
    sizes = [
        (extents_module, "FRAME_BYTES", 32),
        (files_module, "FRAME_BYTES", 32),
        (compaction_module, "FRAME_BYTES", 32),
        (segments_module, "SEGMENT_BYTES", 200),
        (compaction_module, "TEXT_BYTES", 128),
        (scanning_module, "_TAIL_PIECE_BYTES", 40),
    ]
    with scratch() as directory, ExitStack() as stack:
        for module, name, size in sizes:
            stack.enter_context(patch.object(module, name, size))
        yield directory


def stored(directory: Path, text: bytes, chunk_bytes: int, stored_bytes: int, *, packed: bool) -> StoredLog:
    """A log of which a part is in segments; every chunk is a second later than the one before."""
    log = open_log(Layout(directory), REPLICA, SegmentReader())
    wal = Wal(directory / "wal")
    for at in range(0, len(text), chunk_bytes):
        piece = text[at : at + chunk_bytes]
        chunk = Chunk(FileRef(REPLICA), at, piece, times=((at, at // chunk_bytes * 1000),))
        (spot,) = wal.append([Record("s", {}, piece)])
        log.take(admit(log.position, chunk), chunk, Spot(spot.file, spot.at))
        if log.size >= stored_bytes > log.segments.snapshot.size:
            log.store(everything=True)
            log.forget_stored()
    wal.close()
    while packed and (group := next_group(log.segments)) is not None:
        log.segments.exchange(group.segments, pack_anew(log.segments, group))
        remove_replaced(group)
    return log


def all_hits(log: StoredLog, pattern: Pattern, times: TimeRange | None = None, limit: int = 10**6) -> list[Hit]:
    hits: list[Hit] = []
    at: int | None = 0
    while at is not None and at < log.size:
        scanned = scan_piece(log, matcher_of(pattern), at, times or TimeRange(), limit)
        hits += scanned.hits
        at = scanned.next_offset
    return hits


def lines_of(text: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    for line in text.replace(b"\r", b"\n").split(b"\n"):
        found.append((at, line))
        at += len(line) + 1
    return found


def expected(text: bytes, literal: bytes) -> list[int]:
    return [at for at, line in lines_of(text) if literal in line.replace(b"\x1b[1m", b"")]


@given(texts, st.integers(1, 50), st.integers(0, 600), st.booleans(), st.sampled_from([b"needle", b"straw", b"12"]))
def test_every_line_with_the_literal_is_found_once(text: bytes, chunk: int, part: int, packed: bool, literal: bytes):
    with small_sizes() as directory:
        log = stored(directory, text, chunk, part, packed=packed)
        assert [hit.offset for hit in all_hits(log, Pattern(literal.decode()))] == expected(text, literal)


@given(texts, st.integers(1, 50), st.integers(0, 600), st.integers(1, 3))
@example(b"straw" * 6 + b"\n" * 10 + b"needle", 1, 0, 2)
def test_a_search_in_steps_finds_the_same(text: bytes, chunk: int, part: int, limit: int):
    with small_sizes() as directory:
        log = stored(directory, text, chunk, part, packed=True)
        hits = all_hits(log, Pattern("needle"), limit=limit)
        assert [hit.offset for hit in hits] == expected(text, b"needle")


def test_expressions_are_found_too():
    with small_sizes() as directory:
        text = b"".join(b"step %d loss %d.5\n" % (n, n % 7) for n in range(40))
        log = stored(directory, text, 30, 300, packed=True)
        hits = all_hits(log, Pattern(r"loss 3\.\d$", regex=True))
        assert [hit.text for hit in hits] == [f"step {n} loss 3.5" for n in range(40) if n % 7 == 3]


def test_only_what_was_seen_in_a_time_is_found():
    with small_sizes() as directory:
        text = b"".join(b"line %02d of many more lines xxx\n" % n for n in range(20))
        log = stored(directory, text, len(text) // 20, 10, packed=False)
        hits = all_hits(log, Pattern("line"), TimeRange(5000, 8000))
        assert [hit.text[:7] for hit in hits] == [f"line {n:02d}" for n in range(5, 9)]
        assert [hit.time_ms for hit in hits] == [5000, 6000, 7000, 8000]


def test_frames_that_cannot_hold_a_literal_are_not_unpacked(monkeypatch):
    with small_sizes() as directory:
        text = b"".join(b"straw %04d straw straw straw\n" % n for n in range(100)) + b"one needle\n"
        log = stored(directory, text, 500, 10**4, packed=True)
        log.position = log.position.__class__(1, 0, log.size, ended=True)
        log.store(everything=True)
        while (group := next_group(log.segments)) is not None:
            log.segments.exchange(group.segments, pack_anew(log.segments, group))
        unpacked: list[int] = []
        unpack = segment_files_module.unpack

        def counted(packed: bytes, length: int) -> bytes:
            unpacked.append(length)
            return unpack(packed, length)

        monkeypatch.setattr(segment_files_module, "unpack", counted)
        monkeypatch.setattr(scanning_module, "LINE_MAX_BYTES", 64)
        assert [hit.text for hit in all_hits(log, Pattern("one needle"))] == ["one needle"]
        assert 0 < len(unpacked) < 12


def test_a_line_of_many_megabytes_is_searched_in_pieces():
    with scratch() as directory:
        text = b"x" * 300_000 + b"needle" + b"y" * 300_000 + b"\nnext needle\n"
        log = stored(directory, text, 64 * 1024, 10**6, packed=False)
        hits = all_hits(log, Pattern("needle"))
        assert hits[-1].text == "next needle"
        assert all(len(hit.text) <= 4096 for hit in hits)
        assert len(hits) == 2
