"""The layout of a segment file: independent zstd frames of up to 256 KiB text, each behind a header that describes it.

    header frame | zstd frame | header frame | zstd frame | … | footer

Headers and footer are zstd *skippable* frames, so `zstd -d` gives the plain text of a segment. A header tells of its
frame the offset and length in the log, the number of line breaks before it and in it, the times of its first and last
bytes, and the checksum of the packed bytes. All that is known of a log can be rebuilt by walking over the headers. The
footer seals a finished segment: it repeats all headers, so that one read at the end of the file gives the whole index,
and says whether the log is complete. It is written only after the frames are durable.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

FRAME_BYTES: Final = 256 * 1024

_SKIPPABLE: Final = struct.Struct("<II")
_HEADER_MAGIC: Final = 0x184D2A51
_FOOTER_MAGIC: Final = 0x184D2A52
_FIELDS: Final = struct.Struct("<IQQIQIBQQII")
_CRC: Final = struct.Struct("<I")
_TRAILER: Final = struct.Struct("<BIII4s")
_SEAL: Final = b"TMS1"

HEADER_BYTES: Final = _SKIPPABLE.size + _FIELDS.size + _CRC.size
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

    @property
    def stop(self) -> int:
        """Offset behind the last byte."""
        return self.offset + self.length

    @property
    def stop_line(self) -> int:
        """Line breaks up to the end of the frame."""
        return self.first_line + self.breaks


@dataclass(frozen=True, slots=True)
class Placed:
    """A frame and the position of its zstd frame in the segment file."""

    frame: Frame
    at: int


@dataclass(frozen=True, slots=True)
class Footer:
    """The index of a sealed segment, and whether the log ends with it."""

    frames: tuple[Placed, ...]
    ended: bool


def encode_header(frame: Frame) -> bytes:
    """The header in front of a frame."""
    fields = _encode_fields(frame)
    return _SKIPPABLE.pack(_HEADER_MAGIC, len(fields) + _CRC.size) + fields + _CRC.pack(zlib.crc32(fields))


def decode_header(data: bytes) -> Frame | None:
    """The header at the beginning of the data; None where there is none, or a damaged one."""
    if len(data) < HEADER_BYTES:
        return None
    magic, size = _SKIPPABLE.unpack_from(data)
    fields = data[_SKIPPABLE.size : _SKIPPABLE.size + _FIELDS.size]
    (crc,) = _CRC.unpack_from(data, _SKIPPABLE.size + _FIELDS.size)
    if magic != _HEADER_MAGIC or size != _FIELDS.size + _CRC.size or crc != zlib.crc32(fields):
        return None
    return _decode_fields(fields)


def encode_footer(frames: tuple[Placed, ...], *, ended: bool) -> bytes:
    """The footer of a segment with these frames, which stand one behind the other from its beginning."""
    entries = b"".join(_encode_fields(placed.frame) for placed in frames)
    size = len(entries) + _TRAILER.size
    trailer = _TRAILER.pack(ended, len(frames), size, zlib.crc32(entries), _SEAL)
    return _SKIPPABLE.pack(_FOOTER_MAGIC, size) + entries + trailer


def footer_bytes(trailer: bytes) -> int | None:
    """Size of the footer, by the last `TRAILER_BYTES` of a file; None where the file has none."""
    if len(trailer) < _TRAILER.size:
        return None
    _, count, size, _, seal = _TRAILER.unpack(trailer[-_TRAILER.size :])
    if seal != _SEAL or size != count * _FIELDS.size + _TRAILER.size:
        return None
    return int(size)


def decode_footer(data: bytes) -> Footer | None:
    """The footer in its `footer_bytes`; None where it is damaged."""
    ended, count, _, crc, _ = _TRAILER.unpack(data[-_TRAILER.size :])
    entries = data[: -_TRAILER.size]
    if crc != zlib.crc32(entries):
        return None
    frames = (_decode_fields(entries[at * _FIELDS.size : (at + 1) * _FIELDS.size]) for at in range(count))
    return Footer(placed_in_order(frames), bool(ended))


def placed_in_order(frames: Iterable[Frame]) -> tuple[Placed, ...]:
    """The frames with their positions, where they stand one behind the other from the beginning of a file."""
    placed, at = [], 0
    for frame in frames:
        at += HEADER_BYTES
        placed.append(Placed(frame, at))
        at += frame.packed_bytes
    return tuple(placed)


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
    )


def _decode_fields(fields: bytes) -> Frame:
    generation, base, offset, length, first_line, breaks, cr, first_ms, last_ms, packed, crc = _FIELDS.unpack(fields)
    return Frame(generation, base, offset, length, first_line, breaks, bool(cr), first_ms, last_ms, packed, crc)
