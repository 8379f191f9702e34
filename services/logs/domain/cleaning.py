r"""From what a program wrote to text that is safe to show: UTF-8 with replacement, no escape sequences, plain lines.

Removed are ANSI and ISO 6429 escape sequences (colours, cursor movements, window titles, hyperlinks) in their 7-bit and
8-bit forms, and every control character but tab and line feed. A `\r\n` becomes a line feed, and so does a `\r`
alone: each state of a progress bar is a line. Bytes that are no UTF-8 become U+FFFD.

`clean` works on a page: it says how many bytes it has used. What is cut off at the end of the page (half a character,
half a sequence, a `\r` whose `\n` may follow) is left for the next one, up to a limit: garbage that looks like the
beginning of an endless sequence must not hold a log up.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Final

HOLD_BACK_BYTES: Final = 4096

_NEEDS_WORK: Final = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f-\xff]")
_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"  # control sequence: colours, cursor, screen
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*+(?:\x07|\x1b\\|\x9c)"  # strings: titles, links
    r"|\x1b[ -/]*+[0-~]",  # two characters and more: character sets, resets
)
_UNFINISHED: Final = re.compile(
    rb"\r\Z|\x1b(?:\[[0-?]*+[ -/]*+|[\]PX^_][^\x07\x1b\r\n]*+\x1b?|[ -/]*+)\Z",
)
_INTRODUCER: Final = re.compile(r"[\x1b\x90\x98\x9b\x9d-\x9f]")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]+")


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Text of a page, and how many of its bytes that is."""

    text: str
    used_bytes: int


def without_sequences(data: bytes) -> bytes:
    """The bytes without escape sequences; everything else is left as it is, line breaks included."""
    text = data.decode("utf-8", "surrogateescape")
    return _SEQUENCE.sub("", text).encode("utf-8", "surrogateescape")


def usable_bytes(data: bytes) -> int:
    """Bytes of a page that can be told before what follows is known."""
    return len(data) - _held_back(data)


def clean(data: bytes, *, final: bool) -> Cleaned:
    """Text of the page; with `final` nothing follows, so nothing is left for later."""
    used = len(data) if final else usable_bytes(data)
    return Cleaned(_text_of(data[:used]), used)


def unchanged(data: bytes, *, final: bool) -> Cleaned:
    """The page as text and nothing more; half a character at its end is left for later."""
    used = len(data) if final else len(data) - _half_character(data[-4:])
    return Cleaned(data[:used].decode("utf-8", "replace"), used)


def _text_of(data: bytes) -> str:
    if _NEEDS_WORK.search(data) is None:
        return data.decode("ascii")
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    if _INTRODUCER.search(text):
        text = _SEQUENCE.sub("", text)
    return _CONTROL.sub("", text)


def _held_back(data: bytes) -> int:
    """Bytes at the end that cannot be told yet."""
    tail = data[-HOLD_BACK_BYTES:]
    unfinished = _UNFINISHED.search(tail)
    if unfinished is not None and (unfinished.start() > 0 or len(tail) < HOLD_BACK_BYTES):
        return len(tail) - unfinished.start()
    return _half_character(tail)


def _half_character(tail: bytes) -> int:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(tail[-4:])
    return len(decoder.getstate()[0])
