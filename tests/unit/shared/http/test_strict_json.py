from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import MalformedError
from shared.http.strict_json import MAX_DEPTH, parse

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_every_json_value_is_read_as_it_was_written(value: object) -> None:
    assert parse(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary(max_size=200))
def test_bytes_that_are_no_json_are_malformed_and_never_anything_else(body: bytes) -> None:
    try:
        parse(body)
    except MalformedError:
        return


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "no JSON"),
        (b'{"a": 1', "line 1, column 8"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": ' + b"9" * 5000 + b"}", "cannot be read"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "'c' stands twice"),
        (b'{"a": "\xff"}', "not UTF-8: byte 7"),
        ('{"a": "é"}'.encode("utf-16"), "not UTF-8"),
        (b'\xef\xbb\xbf{"a": 1}', "byte order mark"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b"[" * 100_000 + b"]" * 100_000, "deeper than 64"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "deeper than 64"),
    ],
)
def test_what_two_readers_could_read_differently_is_refused_with_the_reason(body: bytes, words: str) -> None:
    with pytest.raises(MalformedError, match=words.replace("(", r"\(")):
        parse(body)


def test_nesting_up_to_the_limit_is_read() -> None:
    depth = MAX_DEPTH - 1
    assert parse(b"[" * depth + b"1" + b"]" * depth)
