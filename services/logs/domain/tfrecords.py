"""TFRecord framing: where the whole records of some bytes are, with all their checksums looked at.

A record is a length (8 bytes), the masked CRC-32C of the length, the message and its CRC. Files grow while they are
read, so reading stops in front of a record that is not whole, and is resumed there. A checksum that is wrong means
damage: nothing behind it can be trusted, and reading stops for good.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np

from services.logs.domain.crc32c import Bytes, Offsets, masked_crcs

HEAD: Final = struct.Struct("<QI")
FOOT_BYTES: Final = 4
RECORD_MAX_BYTES: Final = 256 * 1024 * 1024
_LENGTH_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Records:
    """Where the messages of whole records are, how many bytes those records have, and whether damage follows."""

    starts: Offsets
    lengths: Offsets
    used_bytes: int
    damaged: bool = False

    def cut(self, count: int) -> Records:
        """The first records; what follows them is damage."""
        used = int(self.starts[count - 1] + self.lengths[count - 1]) + FOOT_BYTES if count else 0
        return Records(self.starts[:count], self.lengths[:count], used, damaged=True)


def whole_records(data: bytes, buffer: Bytes) -> Records:
    """The records at the beginning of the data; `buffer` is the same as an array."""
    starts, lengths, used, partial = _walk(data)
    found = Records(np.array(starts, np.int64), np.array(lengths, np.int64), used)
    heads = np.append(found.starts, used + HEAD.size) if partial else found.starts
    sound = _heads_are_sound(buffer, heads)
    if not sound.all():
        # The walk may have gone astray behind the first wrong length.
        found = found.cut(int(np.argmin(sound)))
    return _with_sound_messages(buffer, found)


def missing_bytes(data: bytes) -> int:
    """How many bytes the first record needs beyond these; for records longer than what is read at once."""
    if len(data) < HEAD.size:
        return HEAD.size - len(data)
    length, _ = HEAD.unpack_from(data)
    return max(0, HEAD.size + int(length) + FOOT_BYTES - len(data))


def _walk(data: bytes) -> tuple[list[int], list[int], int, bool]:
    """From length to length; gives also where it stops, and whether the head of a record stands there."""
    starts: list[int] = []
    lengths: list[int] = []
    at, size, unpack = 0, len(data), HEAD.unpack_from
    while at + HEAD.size <= size:
        length, _ = unpack(data, at)
        stop = at + HEAD.size + length + FOOT_BYTES
        if stop > size or length > RECORD_MAX_BYTES:
            return starts, lengths, at, True
        starts.append(at + HEAD.size)
        lengths.append(length)
        at = stop
    return starts, lengths, at, False


def _heads_are_sound(buffer: Bytes, starts: Offsets) -> np.ndarray[tuple[int], np.dtype[np.bool]]:
    """Whether each length has its checksum and is allowed; `starts` are those of the messages."""
    at = starts - HEAD.size
    sums = masked_crcs(buffer, at, np.full(len(at), _LENGTH_BYTES, np.int64))
    sound: np.ndarray[tuple[int], np.dtype[np.bool]] = sums == _words(buffer, at + _LENGTH_BYTES)
    return sound & (_length_words(buffer, at) <= RECORD_MAX_BYTES)


def _with_sound_messages(buffer: Bytes, found: Records) -> Records:
    sums = masked_crcs(buffer, found.starts, found.lengths)
    sound = sums == _words(buffer, found.starts + found.lengths)
    return found if sound.all() else found.cut(int(np.argmin(sound)))


def _words(buffer: Bytes, at: Offsets) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Numbers of four bytes."""
    return np.ascontiguousarray(buffer[at[:, None] + np.arange(4)]).view("<u4").reshape(-1)


def _length_words(buffer: Bytes, at: Offsets) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.ascontiguousarray(buffer[at[:, None] + np.arange(8)]).view("<u8").reshape(-1)
