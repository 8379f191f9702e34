from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import InvalidInputError
from shared.http.paging import decode_cursor, encode_cursor, page_of


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=100), st.integers(-(2**60), 2**60))
def test_a_cursor_comes_back_as_the_key_it_was_made_of(text: str, number: int) -> None:
    assert decode_cursor(encode_cursor((text, number)), str, int) == (text, number)


def test_no_cursor_is_the_first_page() -> None:
    assert decode_cursor(None, str) is None


def wire(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "cursor", ["", "x", "!!!!", "AAAA", wire("{}"), wire("[1]"), wire('["a", 1]'), wire("[true]"), "W" * 2000, "é"]
)
def test_what_is_no_cursor_of_the_list_is_a_violation(cursor: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        decode_cursor(cursor, str)
    assert (raised.value.violations[0].pointer, raised.value.violations[0].code) == ("/query/cursor", "bad-cursor")


@given(st.lists(st.integers(0, 1000), unique=True, max_size=50).map(sorted), st.integers(1, 10))
def test_pages_give_every_item_once_in_order(items: list[int], limit: int) -> None:
    seen: list[int] = []
    after: int | None = None
    while True:
        found = [item for item in items if after is None or item > after][: limit + 1]
        page = page_of(found, limit, lambda item: (item,))
        seen += page.items
        if page.next is None:
            break
        key = decode_cursor(page.next, int)
        assert key is not None
        after = int(key[0])
    assert seen == items
