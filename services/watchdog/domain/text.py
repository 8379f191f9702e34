r"""What replicas write, as lines: cleaned of escape sequences, cut, and the same wherever the chunks are cut.

- Escape sequences are removed; the unfinished beginning of one at the end of a chunk waits for the next chunk.
- Lines are cut at `\n` and at `\r` (each state of a progress bar is a line), and a line without an end every
  `LINE_MAX_BYTES`, so that a gigabyte without a break costs no memory.
- NCCL writes the reason of an error onto the line after `Last error:`; the two are joined into one line.

Cleaned text has `\n` between lines and nowhere a `\r`. Joining and cutting keep the length, so an offset in cleaned
text means the same place before and after.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

LINE_MAX_BYTES: Final = 8192
SHOWN_LINE_BYTES: Final = 500
CONTEXT_LINES: Final = 10
TAIL_BYTES: Final = 6 * 1024

# Lengths are bounded, so that what looks like the beginning of an endless sequence is plain text after a while.
_ESCAPE: Final = re.compile(
    rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # colours, cursor, screen
    rb"|\][^\x07\x1b\r\n]{0,512}(?:\x07|\x1b\\)"  # window titles and links
    rb"|[ -/]{0,4}[0-Z\\^-~])"  # character sets, resets
)
_UNFINISHED_ESCAPE: Final = re.compile(
    rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}|\][^\x07\x1b\r\n]{0,512}\x1b?|[ -/]{0,4})\Z",
)
LAST_ERROR: Final = "Last error:"
_JOINT: Final = re.compile(rb"Last error:[ \t]{0,8}(\n{1,2})(?!\n)")
_JOINT_MAX_BYTES: Final = len(LAST_ERROR) + 8 + 2


def without_escapes(data: bytes) -> tuple[bytes, bytes]:
    """Text without escape sequences, and the beginning of one at its end."""
    if b"\x1b" not in data:
        return data, b""
    unfinished = _UNFINISHED_ESCAPE.search(_ESCAPE.sub(lambda found: b"\0" * len(found[0]), data))
    cut = unfinished.start() if unfinished else len(data)
    return _ESCAPE.sub(b"", data[:cut]), data[cut:]


def raw_length(data: bytes, shown: int) -> int:
    """How many bytes of data with escape sequences make so many without."""
    removed = 0
    for escape in _ESCAPE.finditer(data) if b"\x1b" in data else ():
        if escape.start() - removed >= shown:
            break
        removed += len(escape[0])
    return min(shown + removed, len(data))


def with_line_feeds(text: bytes) -> bytes:
    r"""The text with `\n` for every `\r`."""
    return text.replace(b"\r", b"\n") if b"\r" in text else text


def joined(text: bytes) -> bytes:
    """Complete lines with those after `Last error:` joined to it, in as many bytes."""
    whole = bytearray(text)
    for joint in _joints(text):
        if joint.is_closed:
            whole[joint.start : joint.stop] = b" " * (joint.stop - joint.start)
    return bytes(whole)


def complete_bytes(text: bytes) -> int:
    """Bytes up to the last line break that ends a line for certain, and of what follows as many pieces as are full."""
    start = text.rfind(b"\n") + 1
    if text.find(LAST_ERROR.encode(), max(0, start - _JOINT_MAX_BYTES), start) >= 0:
        last = deque(_joints(text), maxlen=1)
        if last and not last[0].is_closed:
            return last[0].begin
    return start + (len(text) - start) // LINE_MAX_BYTES * LINE_MAX_BYTES


@dataclass(frozen=True, slots=True)
class _Joint:
    """A line that ends with `Last error:`: where it begins, its line breaks, and whether the next line is whole."""

    begin: int
    start: int
    stop: int
    is_closed: bool


def _joints(text: bytes) -> Iterator[_Joint]:
    """Joints of a text that begins with a line; a line that was joined to another is not joined further."""
    continuation = -1
    for match in _JOINT.finditer(text):
        line = text.rfind(b"\n", 0, match.start()) + 1
        begin = line + (match.start() - line) // LINE_MAX_BYTES * LINE_MAX_BYTES
        stop = text.find(b"\n", match.end())
        fits = (stop if stop >= 0 else len(text)) - begin <= LINE_MAX_BYTES
        if line == continuation or not fits:
            continue
        continuation = match.end()
        yield _Joint(begin, match.start(1), match.end(1), is_closed=stop >= 0)


def line_around(text: bytes, at: int) -> tuple[int, int]:
    """Where the line begins and ends that has this byte of cleaned text."""
    begin = text.rfind(b"\n", 0, at) + 1
    start = begin + (at - begin) // LINE_MAX_BYTES * LINE_MAX_BYTES
    stop = text.find(b"\n", at, start + LINE_MAX_BYTES)
    return start, stop if stop >= 0 else min(start + LINE_MAX_BYTES, len(text))


def lines_of(text: bytes) -> Iterator[bytes]:
    """Every line of cleaned text, empty ones too."""
    for line in text.removesuffix(b"\n").split(b"\n") if text else ():
        for start in range(0, max(len(line), 1), LINE_MAX_BYTES):
            yield line[start : start + LINE_MAX_BYTES]


def lines_before(tail: bytes, text: bytes, stop: int) -> tuple[str, ...]:
    """The last ten lines that are not blank before a place in text, as far as the last `TAIL_BYTES` have them whole.

    `tail` is what stood before the text.
    """
    window = (tail + text[max(0, stop - TAIL_BYTES) : stop])[-TAIL_BYTES:]
    if len(window) == TAIL_BYTES:
        window = window[window.find(b"\n") + 1 :]
    return tuple(shown(line) for line in lines_of(window) if line.strip())[-CONTEXT_LINES:]


def tail_of(tail: bytes, text: bytes) -> bytes:
    """The last bytes of everything so far."""
    return text[-TAIL_BYTES:] if len(text) >= TAIL_BYTES else (tail + text)[-TAIL_BYTES:]


def shown(line: bytes) -> str:
    """A line as it goes into an event."""
    return line[:SHOWN_LINE_BYTES].decode("utf-8", "replace").strip("\0\x1b")
