"""The layout of a segment file: independent zstd frames of up to 256 KiB text, each behind a header that describes it.

    header frame | zstd frame | header frame | zstd frame | … | footer

Headers and footer are zstd *skippable* frames, so `zstd -d` gives the plain text of a segment. A header tells of its
frame the offset and length in the log, the number of line breaks before it and in it, the times of its first and last
bytes and of some in between (`marks`), and the checksum of the packed bytes. All that is known of a log can be rebuilt
by walking over the headers. The footer seals a finished segment: it repeats all headers, so that one read at the end of
the file gives the whole index, adds to each a filter for searching (`filters`), and says whether the log is complete.
It is written only after the frames are durable.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

FRAME_BYTES: Final = 256 * 1024

_SKIPPABLE: Final = struct.Struct("<II")
_HEADER_MAGIC: Final = 0x184D2A51
_FOOTER_MAGIC: Final = 0x184D2A52
_FIELDS: Final = struct.Struct("<IQQIQIBQQIIH")
_CRC: Final = struct.Struct("<I")
_LENGTH: Final = struct.Struct("<H")
_TRAILER: Final = struct.Struct("<BIIII4s")
_COUNTS: Final = struct.Struct("<BII")
_SEAL: Final = b"TMS2"

MARKS_MAX_BYTES: Final = 2048
HEADER_MAX_BYTES: Final = _SKIPPABLE.size + _FIELDS.size + MARKS_MAX_BYTES + _CRC.size
TRAILER_BYTES: Final = _TRAILER.size


@dataclass(frozen=True, slots=True)
class Frame:
    """What a header says of its frame; `base` and `generation` are those of the log at the end of the frame."""

    generation: int
    base: int
    offset: int
    length: int
    first_line: int
    breaks: int
    ends_with_cr: bool
    first_ms: int
    last_ms: int
    packed_bytes: int
    packed_crc: int
    marks: bytes = b""

    @property
    def stop(self) -> int:
        """Offset behind the last byte."""
        return self.offset + self.length

    @property
    def stop_line(self) -> int:
        """Line breaks up to the end of the frame."""
        return self.first_line + self.breaks

    @property
    def header_bytes(self) -> int:
        """Size of the header in front of the frame."""
        return _SKIPPABLE.size + _FIELDS.size + len(self.marks) + _CRC.size


@dataclass(frozen=True, slots=True)
class Placed:
    """A frame and the position of its zstd frame in the segment file."""

    frame: Frame
    at: int


@dataclass(frozen=True, slots=True)
class Footer:
    """The index of a sealed segment with a filter for each frame, and whether the log ends with it."""

    frames: tuple[Placed, ...]
    filters: tuple[bytes, ...]
    ended: bool


def encode_header(frame: Frame) -> bytes:
    """The header in front of a frame."""
    content = _encode_fields(frame) + frame.marks
    return _SKIPPABLE.pack(_HEADER_MAGIC, len(content) + _CRC.size) + content + _CRC.pack(zlib.crc32(content))


def decode_header(data: bytes) -> Frame | None:
    """The header at the beginning of the data; None where there is none, or a damaged one."""
    if len(data) < _SKIPPABLE.size + _FIELDS.size + _CRC.size:
        return None
    magic, size = _SKIPPABLE.unpack_from(data)
    stop = _SKIPPABLE.size + size
    if magic != _HEADER_MAGIC or not _FIELDS.size + _CRC.size <= size <= len(data) - _SKIPPABLE.size:
        return None
    content = data[_SKIPPABLE.size : stop - _CRC.size]
    (crc,) = _CRC.unpack_from(data, stop - _CRC.size)
    return _decode_fields(content, 0, _FIELDS.size) if crc == zlib.crc32(content) else None


def encode_footer(frames: Sequence[Placed], filters: Sequence[bytes], *, ended: bool) -> bytes:
    """The footer of a segment with these frames, which stand one behind the other from its beginning."""
    fields = b"".join(_encode_fields(placed.frame) for placed in frames)
    marks = b"".join(placed.frame.marks for placed in frames)
    searching = b"".join(_LENGTH.pack(len(each)) + each for each in filters)
    content = fields + marks + searching
    size = len(content) + _TRAILER.size
    counts = _COUNTS.pack(ended, len(frames), len(searching))
    trailer = _TRAILER.pack(ended, len(frames), len(searching), size, zlib.crc32(content + counts), _SEAL)
    return _SKIPPABLE.pack(_FOOTER_MAGIC, size) + content + trailer


def footer_bytes(trailer: bytes) -> int | None:
    """Size of the footer, by the last `TRAILER_BYTES` of a file; None where the file has none."""
    if len(trailer) < _TRAILER.size:
        return None
    _, count, searching, size, _, seal = _TRAILER.unpack(trailer[-_TRAILER.size :])
    if seal != _SEAL or size < count * _FIELDS.size + searching + _TRAILER.size:
        return None
    return int(size)


def decode_footer(data: bytes) -> Footer | None:
    """The footer in its `footer_bytes`; None where it is damaged."""
    ended, count, searching, _, crc, _ = _TRAILER.unpack(data[-_TRAILER.size :])
    content = data[: -_TRAILER.size]
    if crc != zlib.crc32(content + _COUNTS.pack(ended, count, searching)):
        return None
    frames, marks_at = [], count * _FIELDS.size
    for number in range(count):
        frame = _decode_fields(content, number * _FIELDS.size, marks_at)
        frames.append(frame)
        marks_at += len(frame.marks)
    return Footer(placed_in_order(frames), _filters_of(content[len(content) - searching :]), bool(ended))


def placed_in_order(frames: Iterable[Frame]) -> tuple[Placed, ...]:
    """The frames with their positions, where they stand one behind the other from the beginning of a file."""
    placed, at = [], 0
    for frame in frames:
        at += frame.header_bytes
        placed.append(Placed(frame, at))
        at += frame.packed_bytes
    return tuple(placed)


def _filters_of(data: bytes) -> tuple[bytes, ...]:
    found, at = [], 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        found.append(data[at : at + length])
        at += length
    return tuple(found)


def _encode_fields(frame: Frame) -> bytes:
    return _FIELDS.pack(
        frame.generation,
        frame.base,
        frame.offset,
        frame.length,
        frame.first_line,
        frame.breaks,
        frame.ends_with_cr,
        frame.first_ms,
        frame.last_ms,
        frame.packed_bytes,
        frame.packed_crc,
        len(frame.marks),
    )


def _decode_fields(data: bytes, at: int, marks_at: int) -> Frame:
    generation, base, offset, length, first_line, breaks, cr, first_ms, last_ms, packed, crc, marks_bytes = (
        _FIELDS.unpack_from(data, at)
    )
    marks = data[marks_at : marks_at + marks_bytes]
    return Frame(generation, base, offset, length, first_line, breaks, bool(cr), first_ms, last_ms, packed, crc, marks)
