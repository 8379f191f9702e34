"""Headers and footers of segment files."""

from __future__ import annotations

import zstandard
from hypothesis import given
from hypothesis import strategies as st

from services.logs.domain.frames import (
    HEADER_MAX_BYTES,
    MARKS_MAX_BYTES,
    TRAILER_BYTES,
    Footer,
    Frame,
    decode_footer,
    decode_header,
    encode_footer,
    encode_header,
    footer_bytes,
    placed_in_order,
)

u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**63)
frames = st.builds(
    Frame, u32, u64, u64, u32, u64, u32, st.booleans(), u64, u64, st.integers(0, 10**6), u32, st.binary(max_size=40)
)
filters = st.binary(max_size=30)


@given(frames)
def test_a_header_is_read_as_it_was_written(frame: Frame):
    header = encode_header(frame)
    assert len(header) == frame.header_bytes
    assert decode_header(header + b"more") == frame


@given(frames, st.data())
def test_a_damaged_header_is_none(frame: Frame, data: st.DataObject):
    header = bytearray(encode_header(frame))
    header[data.draw(st.integers(0, frame.header_bytes - 1))] ^= data.draw(st.integers(1, 255))
    assert decode_header(bytes(header)) is None


@given(frames)
def test_a_header_that_is_cut_off_is_none(frame: Frame):
    header = encode_header(frame)
    assert decode_header(bytes(header)[: frame.header_bytes - 1]) is None


@given(st.lists(st.tuples(frames, filters), max_size=5), st.booleans(), st.binary(max_size=100))
def test_a_footer_is_found_at_the_end_of_a_file(given_frames: list[tuple[Frame, bytes]], ended: bool, before: bytes):
    placed = placed_in_order([frame for frame, _ in given_frames])
    searching = tuple(each for _, each in given_frames)
    file = before + encode_footer(placed, searching, ended=ended)
    size = footer_bytes(file[-TRAILER_BYTES:])
    assert size is not None
    assert decode_footer(file[-size:]) == Footer(placed, searching, ended)


@given(st.lists(st.tuples(frames, filters), min_size=1, max_size=3), st.data())
def test_a_damaged_footer_is_none(given_frames: list[tuple[Frame, bytes]], data: st.DataObject):
    placed = placed_in_order([frame for frame, _ in given_frames])
    footer = bytearray(encode_footer(placed, [each for _, each in given_frames], ended=False)[8:])
    footer[data.draw(st.integers(0, len(footer) - TRAILER_BYTES - 1))] ^= data.draw(st.integers(1, 255))
    assert decode_footer(bytes(footer)) is None


def test_frames_stand_one_behind_the_other():
    some = [
        Frame(1, 0, at, 1, 0, 0, False, 0, 0, packed, 0, marks) for at, packed, marks in ((0, 10, b"abc"), (1, 20, b""))
    ]
    first, second = some
    places = [placed.at for placed in placed_in_order(some)]
    assert places == [first.header_bytes, first.header_bytes + 10 + second.header_bytes]


def test_the_largest_header_fits_into_one_read():
    assert Frame(1, 0, 0, 1, 0, 0, False, 0, 0, 1, 0, bytes(MARKS_MAX_BYTES)).header_bytes == HEADER_MAX_BYTES


def test_a_file_without_a_footer_has_none():
    assert footer_bytes(b"") is None
    assert footer_bytes(bytes(TRAILER_BYTES)) is None


def test_a_segment_is_a_file_that_zstd_can_unpack():
    packed = zstandard.ZstdCompressor(level=1).compress(b"hello ")
    frame = Frame(1, 0, 0, 6, 0, 0, False, 0, 0, len(packed), 0)
    segment = (encode_header(frame) + packed) * 2 + encode_footer(
        placed_in_order([frame, frame]), [b"", b"x"], ended=True
    )
    reader = zstandard.ZstdDecompressor().stream_reader(segment, read_across_frames=True)
    assert reader.read() == b"hello hello "
