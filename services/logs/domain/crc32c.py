"""CRC-32C of many pieces of one buffer at once, as TFRecord files need it: two checksums a record, a million records.

A CRC is linear: that of a message is the XOR of what each of its bytes gives by itself at its distance from the end,
and of what the initial state gives. So there is one table of 256 entries for each distance, and pieces of the same
length are summed column by column, with numpy doing all pieces in one step. A piece longer than the tables is cut
into blocks, whose sums are shifted over each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]
Sums = NDArray[np.uint32]

BLOCK_BYTES: Final = 512
_POLYNOMIAL: Final = 0x82F63B78
_ONES: Final = 0xFFFFFFFF
_MASK_DELTA: Final = 0xA282EAD8
_CELLS_MAX: Final = 1 << 21


@dataclass(frozen=True, slots=True)
class _Tables:
    """`of_distance[k][b]`: what byte b gives with k bytes behind it; `initial[n]`: the first state after n."""

    of_distance: Sums
    initial: Sums


def masked_crcs(buffer: Bytes, starts: Offsets, lengths: Offsets) -> Sums:
    """The masked CRC-32C of each piece of the buffer."""
    sums = np.zeros(len(starts), np.uint32)
    for length in np.unique(lengths):
        chosen = np.flatnonzero(lengths == length)
        sums[chosen] = _sums(buffer, starts[chosen], int(length))
    return _masked(sums)


def masked_crc(data: bytes) -> int:
    """The masked CRC-32C of all the data."""
    buffer = np.frombuffer(data, np.uint8)
    return int(masked_crcs(buffer, np.zeros(1, np.int64), np.array([len(data)], np.int64))[0])


def _masked(sums: Sums) -> Sums:
    return ((sums >> np.uint32(15)) | (sums << np.uint32(17))) + np.uint32(_MASK_DELTA)


def _sums(buffer: Bytes, starts: Offsets, length: int) -> Sums:
    """CRCs of pieces of one length."""
    if length > BLOCK_BYTES:
        return np.array([_long_sum(buffer[start : start + length]) for start in starts], np.uint32)
    sums = np.full(len(starts), int(_TABLES.initial[length]) ^ _ONES, np.uint32)
    return sums ^ _linear(buffer, starts, length)


def _linear(buffer: Bytes, starts: Offsets, length: int) -> Sums:
    """The part of the CRCs that the bytes give."""
    sums = np.zeros(len(starts), np.uint32)
    at_once = max(1, _CELLS_MAX // max(1, length))
    for first in range(0, len(starts), at_once):
        some = starts[first : first + at_once]
        for column in range(length):
            sums[first : first + at_once] ^= _TABLES.of_distance[length - 1 - column][buffer[some + column]]
    return sums


def _long_sum(piece: Bytes) -> int:
    """The CRC of a long piece: that of its beginning, then block after block."""
    head = len(piece) % BLOCK_BYTES
    state = int(_TABLES.initial[head]) ^ int(_linear(piece, np.zeros(1, np.int64), head)[0])
    blocks = _linear(piece, np.arange(head, len(piece), BLOCK_BYTES, dtype=np.int64), BLOCK_BYTES)
    for block in blocks.tolist():
        state = _shifted(state) ^ block
    return state ^ _ONES


def _shifted(state: int) -> int:
    """The state after a block of zeros: its bytes act as if they were the block's first four."""
    table = _TABLES.of_distance
    shifted = 0
    for number in range(4):
        shifted ^= int(table[BLOCK_BYTES - 1 - number][(state >> (8 * number)) & 0xFF])
    return shifted


def _tables() -> _Tables:
    of_distance = np.zeros((BLOCK_BYTES, 256), np.uint32)
    row = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        row = np.where(row & 1, (row >> np.uint32(1)) ^ np.uint32(_POLYNOMIAL), row >> np.uint32(1)).astype(np.uint32)
    of_distance[0] = row
    for distance in range(1, BLOCK_BYTES):
        before = of_distance[distance - 1]
        of_distance[distance] = row[before & 0xFF] ^ (before >> np.uint32(8))
    initial = np.zeros(BLOCK_BYTES + 1, np.uint32)
    state = _ONES
    for length in range(BLOCK_BYTES + 1):
        initial[length] = state
        state = int(row[state & 0xFF]) ^ (state >> 8)
    return _Tables(of_distance, initial)


_TABLES: Final = _tables()
