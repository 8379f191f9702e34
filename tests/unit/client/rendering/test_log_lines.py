from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmaster.rendering.log_lines import LINE_CHARACTERS, LineAssembler, harmless


def lines(*chunks: str) -> list[str]:
    assembler = LineAssembler()
    return [line for chunk in chunks for line in assembler.feed(chunk)] + assembler.flush()


@given(st.text(alphabet="ab\n", max_size=60), st.data())
def test_where_chunks_are_cut_makes_no_difference(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    chunks = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert lines(*chunks) == lines(text) == (text.removesuffix("\n").split("\n") if text else [])


@given(st.text(alphabet="ab\r\n", max_size=60), st.data())
def test_carriage_returns_cut_anywhere_leave_the_same_finished_lines(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    chunks = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    finished = text + "\n"
    assert lines(*chunks, "\n") == [line.rstrip("\r").split("\r")[-1] for line in finished.split("\n")[:-1]]


def test_a_line_without_an_end_is_cut() -> None:
    assert [len(line) for line in lines("x" * (2 * LINE_CHARACTERS + 5))] == [LINE_CHARACTERS, LINE_CHARACTERS, 5]


def test_a_progress_bar_that_never_ends_takes_no_memory() -> None:
    assembler = LineAssembler()
    for _ in range(10_000):
        assert assembler.feed("\r" + "x" * 100) == []
    assert assembler.flush() == ["x" * 100]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("plain \t text", "plain \t text"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[1;1Hcleared", "cleared"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]52;c;ZXZpbA==\x1b\\x", "x"),
        ("\x1bPq data\x1b\\x", "x"),
        ("\x1bcreset", "reset"),
        ("\x1b(Bx", "x"),
        ("bell\x07", "bell\N{REPLACEMENT CHARACTER}"),
        ("\x9b31m", "\N{REPLACEMENT CHARACTER}31m"),
        ("end\x1b", "end"),
    ],
)
def test_escape_sequences_and_control_characters_are_taken_out(written: str, shown: str) -> None:
    assert harmless(written, coloured=False) == shown


@given(st.text(alphabet=st.sampled_from("\x1b[]0;m12HJ\x07\\P^_ab\x9b\x00\x08\r"), max_size=40))
def test_nothing_but_colours_ever_passes(text: str) -> None:
    assert not re.search(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]", harmless(text, coloured=False))
    coloured = re.sub(r"\x1b\[[0-9;:]*m", "", harmless(text, coloured=True))
    assert not re.search(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]", coloured)


def test_colours_end_with_their_line() -> None:
    assert harmless("\x1b[31mred", coloured=True) == "\x1b[31mred\x1b[0m"
