from __future__ import annotations

import re

from trainmaster.cli.log_printer import UNFINISHED_SHOWN_AFTER_S, LogPrinter, LogStyle
from trainmaster.documents import LogChunk


class Printed:
    """A printer with a clock that the test moves, and what it printed."""

    def __init__(self, style: LogStyle | None = None) -> None:
        self.lines: list[str] = []
        self.now_s = 0.0
        self.printer = LogPrinter(style or LogStyle(coloured=False), lambda: self.now_s, self.lines.extend)

    def feed(self, text: str, index: int = 0) -> None:
        self.printer.feed(LogChunk(1, "worker", index, 0, text))


def test_replicas_do_not_mix_within_a_line() -> None:
    printed = Printed()
    printed.feed("a")
    printed.feed("b\n", 1)
    printed.feed("c\n")
    assert printed.lines == ["[worker-1] b\n", "[worker-0] ac\n"]


def test_an_unfinished_line_shows_after_a_while() -> None:
    printed = Printed()
    printed.feed("Continue? ")
    printed.printer.tick()
    assert printed.lines == []
    printed.now_s = UNFINISHED_SHOWN_AFTER_S
    printed.printer.tick()
    assert printed.lines == ["[worker-0] Continue? \n"]
    printed.feed("yes\n")
    assert printed.lines[1:] == ["[worker-0] yes\n"]


def test_a_progress_bar_shows_now_and_then_and_at_its_end() -> None:
    printed = Printed()
    for percent in range(100):
        printed.feed(f"\r{percent}%")
        printed.now_s += 0.1
        printed.printer.tick()
    printed.feed("\r100%\n")
    assert 3 <= len(printed.lines) <= 7
    assert printed.lines[-1] == "[worker-0] 100%\n"


def test_what_is_left_is_printed_at_the_end() -> None:
    printed = Printed()
    printed.feed("no line end")
    printed.printer.finish()
    printed.printer.finish()
    assert printed.lines == ["[worker-0] no line end\n"]


def test_only_matching_lines_are_printed() -> None:
    printed = Printed(LogStyle(coloured=False, grep=re.compile("loss")))
    printed.feed("loss 1\nacc 2\n")
    assert printed.lines == ["[worker-0] loss 1\n"]


def test_colours_of_the_program_and_of_the_prefix_pass_where_they_are_wanted() -> None:
    printed = Printed(LogStyle(coloured=True))
    printed.feed("\x1b[31mred\n")
    (line,) = printed.lines
    assert line == "\x1b[36m[worker-0]\x1b[0m \x1b[31mred\x1b[0m\n"
