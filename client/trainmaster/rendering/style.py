"""Colours and the few shapes that everything printed shares.

Whatever comes from the platform may hold characters that steer a terminal; `text` shows them as escapes instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TextIO

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from trainmaster.decoding import Fields

PIPE_WIDTH: Final = 1000  # nothing is cut or wrapped where a program reads
STATE_STYLES: Final = {
    "Queued": "yellow",
    "Diagnosing": "yellow",
    "Starting": "cyan",
    "Running": "bold cyan",
    "Stopping": "yellow",
    "Deciding": "yellow",
    "Retrying": "yellow",
    "Succeeded": "bold green",
    "Failed": "bold red",
    "Stopped": "magenta",
    "Ready": "green",
    "Lost": "red",
    "Quarantined": "red",
    "Draining": "yellow",
}
_DIGITS: Final = 20
_NUMBER: Final = re.compile(r"(\d+)")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def colours_on(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether to write colours: only to a terminal, and not where NO_COLOR is set or the terminal is dumb."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def console(stream: TextIO, environ: Mapping[str, str]) -> Console:
    """A console that writes to the stream, plainly where colours are off."""
    return Console(
        file=stream,
        color_system="auto" if colours_on(stream, environ) else None,
        width=None if stream.isatty() else PIPE_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )


def printable(value: object) -> str:
    """The value as one line that leaves the terminal as it is."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), str(value))


def text(value: object, style: str = "") -> Text:
    """The value as a cell."""
    return Text("-" if value in (None, "") else printable(value), style=style)


def by_name(named: Iterable[Fields]) -> list[Fields]:
    """In the order of their names, numbers in them as numbers."""
    return sorted(named, key=lambda each: [part.zfill(_DIGITS) for part in _NUMBER.split(each.text("name"))])


def state(name: str) -> Text:
    """A state in its colour."""
    return text(name, STATE_STYLES.get(name, ""))


def table(headers: Iterable[str], rows: Iterable[Iterable[object]]) -> Table:
    """Columns without lines, as wide as what is in them."""
    shape = Table(box=None, pad_edge=False, header_style="dim")
    for header in headers:
        shape.add_column(header, overflow="fold")
    for row in rows:
        shape.add_row(*(cell if isinstance(cell, Text) else text(cell) for cell in row))
    return shape


def titled(title: str, body: RenderableType) -> Group:
    """A heading over something."""
    return Group(Text(), Text(title, style="bold"), body)
