"""Cursors of followers."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.logs.domain.cursor import CURSOR_MAX_CHARS, Cursor, decode_cursor, encode_cursor
from shared.errors import InvalidInputError

roles = st.from_regex(r"[a-z][a-z0-9-]{0,9}", fullmatch=True)
places = st.dictionaries(st.tuples(roles, st.integers(0, 200)), st.integers(1, 2**50), max_size=20)


@given(st.integers(1, 10**6), places)
def test_a_cursor_is_read_as_it_was_given_out(attempt: int, offsets: dict[tuple[str, int], int]):
    text = encode_cursor(Cursor(attempt, offsets))
    assert text.isascii()
    assert not set(text) & set("\r\n =+/")
    assert decode_cursor(text) == Cursor(attempt, offsets)


def test_a_large_gang_fits():
    offsets = {("worker", index): 2**34 for index in range(1000)}
    assert len(encode_cursor(Cursor(1, offsets))) < CURSOR_MAX_CHARS


@pytest.mark.parametrize("text", ["7", "x", "AAAA", "é", "!!!!", "AQEGd29y", "AQEB____________", "A" * 50])
def test_what_is_no_cursor_is_refused_with_a_pointer(text: str):
    with pytest.raises(InvalidInputError) as refusal:
        decode_cursor(text)
    assert [(v.pointer, v.code) for v in refusal.value.violations] == [("/header/last-event-id", "bad-event-id")]


@given(st.binary(max_size=60))
def test_no_text_makes_it_fail_otherwise(data: bytes):
    with suppress(InvalidInputError):
        decode_cursor(data.decode("latin-1"))
