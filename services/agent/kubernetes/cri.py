"""The format in which container runtimes write logs, undone: what the process wrote, byte for byte.

An entry is `<time> stdout|stderr <tag> <text>` and a newline. Tag `F` means that the process wrote a newline after the
text, `P` that it did not: the line was longer than the runtime's buffer, or the process ended in the middle of it. Tags
may have more parts behind colons. So an entry decodes by itself, to its text and for `F` a newline, and a decoder
needs no memory: whatever is decoded again from the same place on is the same again.

Output and error output stand in one file in the order of their entries; where both are written at once, a very long
line may have lines of the other within it, as on a terminal. An entry that is none (a runtime that was out of disk) is
kept as it is. Containerd itself drops a carriage return right before a newline; all others are kept.
"""

from __future__ import annotations

import re
from typing import Final

HEAD_BYTES: Final = 128
_ENTRY: Final = re.compile(
    rb"^[^ \n]+ std(?:out|err) (?:F(?::[^ \n]*)?(?: (.*\n)|(\n))|P(?::[^ \n]*)?(?: (.*))?\n)", re.MULTILINE
)


def whole_entries(data: bytes) -> int:
    """How many bytes of the data are entries with their ends."""
    return data.rfind(b"\n") + 1


def decode(entries: bytes) -> bytes:
    """What the process wrote, of entries with their ends."""
    return _ENTRY.sub(rb"\1\2\3", entries)


def decode_torn(entry: bytes) -> bytes:
    """What is left of an entry without its end: its text, where that has begun."""
    return decode(entry + b"\n").removesuffix(b"\n") if entry else b""


def head_of(data: bytes) -> bytes:
    """What tells a log file from every other: the begin of its first entry, with a time to the nanosecond.

    Empty where too little of the file is there to tell.
    """
    first, end, _ = data[:HEAD_BYTES].partition(b"\n")
    return first if end or len(data) >= HEAD_BYTES else b""
