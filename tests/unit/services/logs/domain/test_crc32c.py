"""The checksum of TFRecords against the well-known one, for pieces of any length."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.logs.domain.crc32c import BLOCK_BYTES, masked_crc, masked_crcs


def masked(crc: int) -> int:
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def by_bits(data: bytes) -> int:
    """The definition: bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return masked(crc ^ 0xFFFFFFFF)


def test_the_check_value_of_the_standard():
    assert masked_crc(b"123456789") == masked(0xE3069283)


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_many_pieces_at_once_are_each_right(pieces: list[bytes]):
    buffer = np.frombuffer(b"".join(pieces) + bytes(8), np.uint8)
    lengths = np.array([len(piece) for piece in pieces], np.int64)
    starts = np.cumsum(lengths) - lengths
    assert masked_crcs(buffer, starts, lengths).tolist() == [by_bits(piece) for piece in pieces]


@pytest.mark.parametrize("size", [BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 5 * BLOCK_BYTES, 5 * BLOCK_BYTES + 77])
def test_pieces_longer_than_the_tables_are_right(size: int):
    data = bytes((number * 37 + 11) % 256 for number in range(size))
    assert masked_crc(data) == by_bits(data)
