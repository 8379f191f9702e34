"""Which lines match: the same as line by line with Python's own means, as far as those go."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.logs.domain.matching import Pattern, matcher_of, matching_lines
from shared.errors import InvalidInputError

words = st.sampled_from(
    [b"error", b"ERROR", b"abc", b"a", b"  ", b"12", "中".encode(), b"\x1b[31m", b"\x1b[0m", b"\xff"]
)
lines = st.lists(st.lists(words, max_size=4).map(b"".join), min_size=1, max_size=8)
breaks = st.sampled_from([b"\n", b"\r\n", b"\r"])


def found(pattern: Pattern, text: bytes) -> list[bytes]:
    return [text[start:stop] for start, stop in matching_lines(matcher_of(pattern), text)]


def without_colours(line: bytes) -> bytes:
    return re.sub(rb"\x1b\[\d+m", b"", line)


@given(lines, breaks, st.sampled_from([b"error", b"a", b"12", b"errorabc", "中".encode()]), st.booleans())
def test_a_literal_is_found_in_every_line_that_shows_it(parts: list[bytes], end: bytes, literal: bytes, fold: bool):
    def holds(line: bytes) -> bool:
        shown = without_colours(line)
        return literal in (shown.lower() if fold else shown)

    expected = [line for line in parts if holds(line)]
    assert found(Pattern(literal.decode(), ignore_case=fold), end.join(parts) + end) == expected


@given(lines, st.sampled_from([r"err\w+", r"^a", r"12$", r"a.*12", r"[^a]*12", r"a\s+1", r"b?c"]))
def test_an_expression_is_found_in_every_line_that_it_matches_alone(parts: list[bytes], expression: str):
    expected = [line for line in parts if line and re.search(expression.encode(), without_colours(line))]
    assert found(Pattern(expression, regex=True), b"\n".join(parts)) == expected


def test_case_may_be_ignored_in_expressions():
    assert found(Pattern("err[a-z]+", regex=True, ignore_case=True), b"an ERROR\nnone\n") == [b"an ERROR"]
    assert found(Pattern("err[a-z]+", regex=True), b"an ERROR\nnone\n") == []


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (Pattern(""), "empty"),
        (Pattern("x" * 513), "at most 512"),
        (Pattern("a\nb"), "line break"),
        (Pattern("(", regex=True), "Missing close parenthesis"),
        (Pattern("(?=a)b", regex=True), "Zero-width assertions"),
        (Pattern(r"(a)\1", regex=True), "Back-references"),
        (Pattern("a*", regex=True), "matches empty"),
        (Pattern(r"\Aabc", regex=True), "write ^ and $"),
    ],
)
def test_what_cannot_be_looked_for_is_refused_with_the_reason(pattern: Pattern, said: str):
    with pytest.raises(InvalidInputError) as refused:
        matcher_of(pattern)
    assert said in str(refused.value.violations[0].message)


def test_an_escaped_backslash_before_a_letter_is_no_anchor():
    assert found(Pattern(r"C:\\Zip", regex=True), b"open C:\\Zip\n") == [b"open C:\\Zip"]


def test_an_expression_that_takes_others_for_ever_takes_its_time_once():
    text = b"x" * 200_000 + b"\n"
    assert found(Pattern("(x+x+)+y", regex=True), text) == []


def test_the_text_without_an_end_is_a_line():
    assert found(Pattern("last"), b"first\nlast") == [b"last"]
