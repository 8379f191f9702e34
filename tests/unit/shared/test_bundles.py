"""Bundles of archived events: nothing is lost on the way, and they stay small enough for a message."""

from __future__ import annotations

import json

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from shared.bundles import BUNDLE_MAX_BYTES, MalformedBundleError, Stored, merged, pack, unpack

STORED = st.builds(
    Stored, st.integers(1, 1 << 60), st.text(max_size=20), st.text(max_size=200).map(lambda text: text.encode())
)


@given(st.lists(STORED, max_size=20))
def test_what_is_packed_comes_out_as_it_was(messages: list[Stored]) -> None:
    assert [message for bundle in pack(messages) for message in unpack(bundle)] == messages


def test_many_events_are_several_bundles_that_each_fit_into_a_message() -> None:
    noise = "".join(chr(33 + number * 7919 % 90) for number in range(BUNDLE_MAX_BYTES // 2))
    messages = [Stored(number, "s", noise.encode()) for number in range(1, 6)]
    bundles = list(pack(messages))
    assert [len(unpack(bundle)) for bundle in bundles] == [2, 2, 1]
    assert all(len(bundle) < 1 << 20 for bundle in bundles)


def test_a_bundle_is_lines_that_other_tools_can_read() -> None:
    (bundle,) = pack([Stored(7, "tm.job.tj-a.state.submitted", b'{"id": "x"}')])
    line = json.loads(zstandard.ZstdDecompressor().decompress(bundle))
    assert line == {"sequence": 7, "subject": "tm.job.tj-a.state.submitted", "text": '{"id": "x"}'}


def test_of_messages_that_are_there_twice_each_counts_once_in_the_order_of_the_stream() -> None:
    first, second, third = (Stored(number, "s", b"x") for number in (1, 2, 3))
    assert merged([third, first], [first, second]) == [first, second, third]


@pytest.mark.parametrize("content", [b"", b"x", zstandard.compress(b"{}"), zstandard.compress(b"[1")])
def test_anything_else_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedBundleError):
        unpack(content)
