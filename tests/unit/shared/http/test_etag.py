from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import ConflictError, InvalidInputError
from shared.http.etag import check_if_match, etag, parse_if_match


@given(st.integers(min_value=0, max_value=10**18 - 1))
def test_an_etag_comes_back_as_the_sequence_it_was_made_of(sequence: int) -> None:
    assert parse_if_match(etag(sequence)) == sequence


@pytest.mark.parametrize("header", [None, "*", " * "])
def test_any_version_will_do_without_a_tag(header: str | None) -> None:
    assert parse_if_match(header) is None


@pytest.mark.parametrize("header", ["17", 'W/"17"', '"a"', '"17", "18"', '"٣"', ""])
def test_what_is_no_tag_of_this_api_is_a_violation(header: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        parse_if_match(header)
    assert (raised.value.violations[0].pointer, raised.value.violations[0].code) == ("/header/if-match", "bad-etag")


def test_a_writer_that_has_seen_another_version_is_told_the_present_one() -> None:
    check_if_match(None, 5)
    check_if_match(5, 5)
    with pytest.raises(ConflictError) as raised:
        check_if_match(4, 5)
    assert raised.value.current == 5
