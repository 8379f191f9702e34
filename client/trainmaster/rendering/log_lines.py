"""Log text as lines for a terminal.

Chunks begin and end anywhere, so each replica has a `LineAssembler`. Of a line that was overwritten with carriage
returns (a progress bar) the last state is kept. Escape sequences that only set colours pass where colours are on; all
others, and control characters, are taken out, so that no program's output can move the cursor or set the title of the
terminal that reads it. A line without an end is cut at 64 KiB.
"""

from __future__ import annotations

import re
from typing import Final

LINE_CHARACTERS: Final = 64 * 1024

_ESCAPE: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC and other strings: titles, clipboard
    r"|\x1b[ -/]*[0-~]?"  # all others
)
_COLOUR: Final = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1a\x1c-\x1f\x7f-\x9f]")
_RESET: Final = "\x1b[0m"
_PREFIX_COLOURS: Final = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)


class LineAssembler:
    """The lines of one replica, from chunks."""

    def __init__(self) -> None:
        self._rest = ""

    @property
    def pending(self) -> bool:
        """Whether there is text that no line end has come for."""
        return bool(self._rest)

    def feed(self, text: str) -> list[str]:
        """The lines that this chunk completes."""
        *lines, self._rest = (self._rest + text).split("\n")
        complete = [_last_state(line) for line in lines]
        if "\r" in self._rest[:-1]:
            self._rest = _overwritten(self._rest)
        while len(self._rest) > LINE_CHARACTERS:
            complete.append(self._rest[:LINE_CHARACTERS])
            self._rest = self._rest[LINE_CHARACTERS:]
        return complete

    def flush(self) -> list[str]:
        """What is there of the unfinished line; what comes after it will be a line of its own."""
        rest, self._rest = _last_state(self._rest), ""
        return [rest] if rest else []


class Prefixes:
    """`[worker-0] `, each replica in a colour of its own."""

    def __init__(self, *, coloured: bool) -> None:
        self._coloured = coloured
        self._seen: dict[str, str] = {}

    def of(self, replica: str) -> str:
        """The prefix of a replica's lines."""
        if replica not in self._seen:
            colour = _PREFIX_COLOURS[len(self._seen) % len(_PREFIX_COLOURS)]
            self._seen[replica] = f"\x1b[{colour}m[{replica}]{_RESET} " if self._coloured else f"[{replica}] "
        return self._seen[replica]


def harmless(line: str, *, coloured: bool) -> str:
    """The line without anything that would steer a terminal, but for colours where they are wanted."""
    if "\x1b" in line:
        line = _ESCAPE.sub(lambda match: match[0] if coloured and _COLOUR.fullmatch(match[0]) else "", line)
    line = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", line)
    return line + _RESET if "\x1b" in line else line


def _last_state(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]


def _overwritten(rest: str) -> str:
    """An unfinished line without the states that were overwritten already, so that it does not grow for ever."""
    tail = "\r" if rest.endswith("\r") else ""
    return _last_state(rest) + tail
