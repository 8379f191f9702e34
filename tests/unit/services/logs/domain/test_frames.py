"""Headers and footers of segment files."""

from __future__ import annotations

import zstandard
from hypothesis import given
from hypothesis import strategies as st

from services.logs.domain.frames import (
    HEADER_BYTES,
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
frames = st.builds(Frame, u32, u64, u64, u32, u64, u32, st.booleans(), u64, u64, st.integers(0, 10**6), u32)


@given(frames)
def test_a_header_is_read_as_it_was_written(frame: Frame):
    header = encode_header(frame)
    assert len(header) == HEADER_BYTES
    assert decode_header(header + b"more") == frame


@given(frames, st.data())
def test_a_damaged_header_is_none(frame: Frame, data: st.DataObject):
    header = bytearray(encode_header(frame))
    header[data.draw(st.integers(0, HEADER_BYTES - 1))] ^= data.draw(st.integers(1, 255))
    assert decode_header(bytes(header)) is None
    assert decode_header(bytes(header)[: HEADER_BYTES - 1]) is None


@given(st.lists(frames, max_size=5), st.booleans(), st.binary(max_size=100))
def test_a_footer_is_found_at_the_end_of_a_file(given_frames: list[Frame], ended: bool, before: bytes):
    placed = placed_in_order(given_frames)
    file = before + encode_footer(placed, ended=ended)
    size = footer_bytes(file[-TRAILER_BYTES:])
    assert size is not None
    assert decode_footer(file[-size:]) == Footer(placed, ended)


def test_frames_stand_one_behind_the_other():
    some = [Frame(1, 0, at, 1, 0, 0, False, 0, 0, packed, 0) for at, packed in ((0, 10), (1, 20))]
    assert [placed.at for placed in placed_in_order(some)] == [HEADER_BYTES, 2 * HEADER_BYTES + 10]


def test_a_file_without_a_footer_has_none():
    assert footer_bytes(b"") is None
    assert footer_bytes(bytes(TRAILER_BYTES)) is None


def test_a_segment_is_a_file_that_zstd_can_unpack():
    packed = zstandard.ZstdCompressor(level=1).compress(b"hello ")
    frame = Frame(1, 0, 0, 6, 0, 0, False, 0, 0, len(packed), 0)
    segment = (encode_header(frame) + packed) * 2 + encode_footer(placed_in_order([frame, frame]), ended=True)
    reader = zstandard.ZstdDecompressor().stream_reader(segment, read_across_frames=True)
    assert reader.read() == b"hello hello "
