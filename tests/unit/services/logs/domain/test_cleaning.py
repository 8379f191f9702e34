"""Text that is safe to show, whatever was written, however it is cut into pages."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.logs.domain.cleaning import HOLD_BACK_BYTES, clean, usable_bytes


def cleaned(data: bytes) -> str:
    return clean(data, final=True).text


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"plain text\n", "plain text\n"),
        (b"tab\tstays\n", "tab\tstays\n"),
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b[1;38;5;208mbold\x1b[m", "bold"),
        (b"\x1b[2K\x1b[1Gprogress", "progress"),
        (b"\x1b]0;window title\x07text", "text"),
        (b"\x1b]8;;http://x.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1bP1$q\x1b\\dcs", "dcs"),
        (b"\x1b(Bcharset\x1b7\x1b8\x1bc", "charset"),
        ("\x9b31mc1\x9d0;t\x9c".encode(), "c1"),
        (b"a\r\nb", "a\nb"),
        (b"\r 10%\r 20%\r100%\n", "\n 10%\n 20%\n100%\n"),
        (b"back\x08space\x00nul\x07bell\x7fdel", "backspacenulbelldel"),
        ("训练损失 – ö".encode(), "训练损失 – ö"),
        (b"half \xe8\xae", "half �"),
        (b"\xff\xfe", "��"),
        (b"\r\x1b[31m\n", "\n\n"),
        (b"\x1b]0;a title that never ends\nthe next line\x07", "0;a title that never ends\nthe next line"),
        (b"\x1b", ""),
        (b"\x1b\x1b[0m[31m", "[31m"),
        (b"<b>&amp;</b>", "<b>&amp;</b>"),
    ],
)
def test_sequences_and_control_characters_go_and_text_stays(written: bytes, shown: str):
    assert cleaned(written) == shown


@given(st.binary(max_size=300))
def test_no_control_character_is_ever_shown(data: bytes):
    assert all(unicodedata.category(char) != "Cc" or char in "\t\n" for char in cleaned(data))


pieces = st.lists(
    st.sampled_from(
        [b"text ", "训练".encode(), "ö".encode(), b"\n", b"\r\n", b"\r", b"\x1b[31m", b"\x1b[0m", b"\x1b]0;title\x07"]
    ),
    max_size=40,
).map(b"".join)


@given(pieces, st.lists(st.integers(1, 20), min_size=1))
def test_pages_together_are_the_text_of_the_whole(data: bytes, sizes: list[int]):
    text, at, page = "", 0, 0
    while at < len(data):
        size = sizes[page % len(sizes)] + page  # a page that is too small to tell grows with the next try
        end = at + size >= len(data)
        result = clean(data[at : at + size], final=end)
        text, at, page = text + result.text, at + result.used_bytes, page + 1
    assert text == cleaned(data)


@given(st.binary(max_size=200))
def test_a_page_never_uses_more_than_it_has(data: bytes):
    assert 0 <= usable_bytes(data) <= len(data)


@pytest.mark.parametrize(
    "end", [b"\r", b"\x1b", b"\x1b[", b"\x1b[31", b"\x1b]0;ti", b"\x1b]0;t\x1b", "训".encode()[:2], b"\xf0\x9f\x98"]
)
def test_what_is_cut_off_at_the_end_is_left_for_the_next_page(end: bytes):
    result = clean(b"text" + end, final=False)
    assert (result.text, result.used_bytes) == ("text", 4)


@pytest.mark.parametrize("opening", [b"\x1b]0;", b"\x1b[", b"\x1bP"])
def test_an_endless_sequence_does_not_hold_a_log_up(opening: bytes):
    data = opening + b"0" * (2 * HOLD_BACK_BYTES)
    result = clean(data, final=False)
    assert result.used_bytes == len(data)
    assert "0000" in result.text
