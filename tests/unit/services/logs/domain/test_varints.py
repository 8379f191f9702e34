"""Numbers of variable length: what is packed is taken again, and what is none is noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.logs.domain.varints import packed_varint, taken_varint


@given(st.lists(st.integers(0, 2**63 - 1)))
def test_what_was_packed_is_taken_again_one_after_the_other(numbers: list[int]):
    packed, at = b"".join(map(packed_varint, numbers)), 0
    for number in numbers:
        found, at = taken_varint(packed, at)
        assert found == number
    assert at == len(packed)


@pytest.mark.parametrize(("number", "size"), [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3)])
def test_small_numbers_are_short(number: int, size: int):
    assert len(packed_varint(number)) == size


def test_half_a_number_is_noticed():
    with pytest.raises(IndexError):
        taken_varint(b"\x80", 0)


def test_a_number_of_more_than_nine_bytes_is_noticed():
    with pytest.raises(ValueError, match="70"):
        taken_varint(b"\xff" * 11, 0)
