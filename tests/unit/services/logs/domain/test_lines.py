"""Line breaks in bytes that are cut anywhere, and where a tail begins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.logs.domain.cleaning import clean
from services.logs.domain.lines import count_breaks, tail_start

lines = st.lists(st.sampled_from([b"a", b"bb", b"\n", b"\r", b"\r\n", b"\r\r\n"]), max_size=30).map(b"".join)


@pytest.mark.parametrize(
    ("data", "breaks"),
    [(b"", 0), (b"a", 0), (b"a\n", 1), (b"a\r\nb", 1), (b"a\rb\rc\n", 3), (b"\n\n", 2), (b"\r\r\n", 2)],
)
def test_a_break_is_a_line_feed_a_carriage_return_or_both(data: bytes, breaks: int):
    assert count_breaks(data) == breaks


@given(lines, st.data())
def test_breaks_are_counted_the_same_however_the_data_is_cut(data: bytes, draw: st.DataObject):
    cut = draw.draw(st.integers(0, len(data)))
    first, second = data[:cut], data[cut:]
    assert count_breaks(first) + count_breaks(second, after_cr=first.endswith(b"\r")) == count_breaks(data)


@given(lines)
def test_breaks_are_the_lines_that_the_cleaned_text_has(data: bytes):
    assert count_breaks(data) == clean(data, final=True).text.count("\n")


@given(lines, st.integers(1, 8))
def test_the_tail_is_the_last_lines_of_the_text(data: bytes, count: int):
    text = clean(data, final=True).text
    expected = text.splitlines(keepends=True)[-count:]
    start = tail_start(data, count)
    assert clean(data[start or 0 :], final=True).text == "".join(expected)


def test_no_lines_are_asked_for():
    assert tail_start(b"a\nb\n", 0) == 4
    assert tail_start(b"", 3) is None
