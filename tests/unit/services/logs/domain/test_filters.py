"""Filters: whatever is in a text is never excluded, and what is not there mostly is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.logs.domain.filters import OVERLAP_BYTES, LiteralFilter, filter_of
from tests.support.training_log import training_text

LOG = training_text(1, 0, 256 * 1024)


def may_be_in(literal: bytes, *texts: bytes) -> bool:
    (answer,) = LiteralFilter(literal).may_be_in([filter_of(*texts)])
    return answer


@given(st.binary(max_size=400), st.data())
def test_a_part_of_a_text_is_never_excluded(text: bytes, data: st.DataObject):
    start = data.draw(st.integers(0, len(text)))
    literal = text[start : data.draw(st.integers(start, len(text)))]
    assert may_be_in(literal, b"before", text)


@given(st.integers(0, len(LOG) - 300), st.integers(1, 300))
def test_a_part_of_a_log_is_never_excluded_in_any_case(start: int, length: int):
    literal = LOG[start : start + length]
    assert may_be_in(literal, LOG)
    assert may_be_in(literal.upper(), LOG)


def test_what_is_not_in_a_log_is_excluded():
    absent = (b"Segmentation fault", b"CUDA out of memory", b"uncorrectable ECC", b"deadbeef!")
    assert not any(may_be_in(literal, LOG) for literal in absent)


def test_a_filter_of_a_log_is_small():
    assert len(filter_of(LOG)) <= 2048


def test_digits_short_and_very_long_literals_exclude_nothing():
    assert may_be_in(b"987654321", LOG)
    for literal in (b"", b"abc", b"x" * (OVERLAP_BYTES + 1)):
        assert not LiteralFilter(literal).is_selective
        assert may_be_in(literal, LOG)


def test_filters_of_different_sizes_are_looked_up_together():
    words = [
        b" ".join(b"word%c%c%c" % (97 + a, 97 + b, 97 + c) for a in range(26) for b in range(26) for c in range(9))
    ]
    filters = [
        filter_of(b"the needle"),
        b"",
        filter_of(*words),
        filter_of(b"nothing of it"),
        filter_of(*words, b"needle"),
    ]
    assert len({len(each) for each in filters}) == 3
    assert LiteralFilter(b"needle").may_be_in(filters) == [True, True, False, False, True]


def test_an_empty_text_has_no_filter():
    assert filter_of(b"") == b""
