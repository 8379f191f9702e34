"""Whatever a process writes comes out of the runtime's entries as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent.kubernetes.cri import HEAD_BYTES, decode, decode_torn, head_of, whole_entries
from tests.support.kubernetes_logs import entries_of

TIME = b"2026-01-02T03:04:05.678901234+01:00"


@given(st.binary(max_size=400), st.integers(1, 50))
def test_any_bytes_come_out_identical_however_long_lines_were_cut(written: bytes, longest: int):
    assert decode(entries_of(written, longest=longest)) == written


@given(
    st.lists(st.sampled_from([b"\r 10%", b"\n", b"x stdout F y", b"\x1b[31m", b"\xff\x00", b" ", b"P"]), max_size=30)
)
def test_what_looks_like_entries_and_progress_is_text(parts: list[bytes]):
    written = b"".join(parts)
    assert decode(entries_of(written, longest=7)) == written


@given(st.binary(max_size=300), st.data())
def test_pieces_that_end_anywhere_decode_to_the_whole(written: bytes, data: st.DataObject):
    entries = entries_of(written, longest=20)
    cut = data.draw(st.integers(0, len(entries)))
    stop = whole_entries(entries[:cut])
    assert decode(entries[:stop]) + decode(entries[stop:]) == written


def test_output_and_error_output_stand_in_the_order_of_their_entries():
    entries = [b" stdout P abc", b" stderr F oh", b" stdout F def"]
    assert decode(b"".join(TIME + each + b"\n" for each in entries)) == b"abcoh\ndef\n"


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (b" stdout F", b"\n"),
        (b" stdout F ", b"\n"),
        (b" stdout P", b""),
        (b" stderr F:more:tags text", b"text\n"),
        (b" stderr P:more text", b"text"),
        (b" stdout F  two  spaces ", b" two  spaces \n"),
        (b" stdout F \r", b"\r\n"),
    ],
)
def test_entries_decode_by_their_tag(entry: bytes, text: bytes):
    assert decode(TIME + entry + b"\n") == text


def test_what_is_no_entry_is_kept_as_it_is():
    entries = b"no entry\n" + TIME + b" stdout F good\n" + TIME + b" stdin F odd\n"
    assert decode(entries) == b"no entry\ngood\n" + TIME + b" stdin F odd\n"


def test_the_text_of_an_entry_that_was_never_finished_is_kept():
    assert decode_torn(TIME + b" stdout F half a li") == b"half a li"
    assert decode_torn(TIME + b" std") == TIME + b" std"
    assert decode_torn(b"") == b""


def test_a_head_needs_a_whole_entry_or_enough_of_it():
    assert head_of(b"") == head_of(TIME + b" stdout F begin") == b""
    assert head_of(TIME + b" stdout F x\nmore") == TIME + b" stdout F x"
    assert head_of(b"x" * 1000) == b"x" * HEAD_BYTES
