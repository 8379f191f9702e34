"""Texts spread over ConfigMaps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.engines.kubernetes.objects.packing import packed, too_large

CONTENTS = st.dictionaries(st.text("abc", min_size=1, max_size=8), st.text(max_size=50), max_size=20)


@given(contents=CONTENTS)
def test_everything_stands_once_and_in_order_and_no_part_passes_the_limit(contents):
    parts = packed(contents, 300)
    assert [item for part in parts for item in part.items()] == list(contents.items())
    assert all(sum(len(key) + len(text.encode()) for key, text in part.items()) <= 300 for part in parts)


def test_what_fits_into_one_is_in_one():
    assert packed({"a": "x", "b": "y"}) == ({"a": "x", "b": "y"},)
    assert packed({}) == ()


def test_bytes_count_and_not_letters():
    assert too_large(["ä" * 1_500], 3_500)
    assert not too_large(["a" * 1_500], 3_500)
