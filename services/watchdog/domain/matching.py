r"""Finding rules in what a replica writes, chunk by chunk, with the same outcome wherever the chunks are cut.

Text goes through three stages, each of which keeps back what it cannot judge yet:

- escape sequences are removed; the unfinished beginning of one at the end of a chunk waits for the next chunk;
- lines are cut at `\n` and at `\r` (each state of a progress bar is a line), and a line without an end every
  `LINE_MAX_BYTES`, so that a gigabyte without a break costs no memory;
- complete lines are searched: a rule holds where all of its fragments stand on one line. Of each rule only the first
  such line counts.

Searching looks for one fragment of each rule in the whole piece of text, and at a line only where that one is found.
A `Scan` is all that is remembered of a log between two chunks: some kilobytes, whatever the log's size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from services.watchdog.domain.phases import last_declared
from shared.logs_wire import Chunk

LINE_MAX_BYTES: Final = 8192
CONTEXT_LINES: Final = 10
SHOWN_LINE_BYTES: Final = 500

# Lengths are bounded, so that what looks like the beginning of an endless sequence is plain text after a while.
_ESCAPE: Final = re.compile(
    rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # colours, cursor, screen
    rb"|\][^\x07\x1b\r\n]{0,512}(?:\x07|\x1b\\)"  # window titles and links
    rb"|[ -/]{0,4}[0-Z\\^-~])"  # character sets, resets
)
_UNFINISHED_ESCAPE: Final = re.compile(
    rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}|\][^\x07\x1b\r\n]{0,512}\x1b?|[ -/]{0,4})\Z",
)


@dataclass(frozen=True, slots=True)
class LineRule:
    """Fragments that must all stand on one line."""

    id: str
    fragments: tuple[str, ...]

    @property
    def needles(self) -> tuple[bytes, ...]:
        """The fragments as they stand in a log, the longest first: it is the rarest."""
        return tuple(sorted((fragment.encode() for fragment in self.fragments), key=len, reverse=True))


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule that was found: its line, and up to ten lines before it."""

    rule: str
    line: str
    before: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scan:
    """How far a log is read: what is kept back of it, the last lines, which rules were found, the declared phase."""

    generation: int = 1
    position: int = 0
    unfinished: bytes = b""
    line: bytes = b""
    context: tuple[bytes, ...] = ()
    found: frozenset[str] = field(default_factory=frozenset)
    ended: bool = False
    phase: str = ""


@dataclass(frozen=True, slots=True)
class Scanned:
    """A scan after a chunk, and what was found in it; `gap` where bytes before the chunk are missing."""

    scan: Scan
    hits: tuple[Hit, ...] = ()
    gap: bool = False


def take(scan: Scan, chunk: Chunk, rules: tuple[LineRule, ...], *, over_gap: bool = False) -> Scanned:
    """Read on with a chunk. What was read before is passed over; `over_gap`: what is missing will not come any more."""
    if scan.ended and chunk.generation <= scan.generation:
        return Scanned(scan)
    if chunk.generation < scan.generation:
        return Scanned(scan)
    hits: list[Hit] = []
    if chunk.generation > scan.generation:
        scan = _restarted(_closed(scan, rules, hits), chunk.generation)
    if chunk.offset > scan.position:
        if not over_gap:
            return Scanned(scan, tuple(hits), gap=True)
        scan = replace(_closed(scan, rules, hits), position=chunk.offset)
    scan = _read(scan, chunk.data[scan.position - chunk.offset :], rules, hits)
    if chunk.end is not None and chunk.end == scan.position:
        scan = replace(_closed(scan, rules, hits), ended=True)
    return Scanned(scan, tuple(hits))


def shown(line: bytes) -> str:
    """A line as it goes into an event."""
    return line[:SHOWN_LINE_BYTES].decode("utf-8", "replace").strip("\0\x1b")


def _restarted(scan: Scan, generation: int) -> Scan:
    return replace(scan, generation=generation, position=0, ended=False)


def _closed(scan: Scan, rules: tuple[LineRule, ...], hits: list[Hit]) -> Scan:
    """Nothing follows on what was kept back: it is text, and the end of a line."""
    return _search(replace(scan, unfinished=b"", line=b""), scan.line + scan.unfinished, rules, hits)


def _read(scan: Scan, data: bytes, rules: tuple[LineRule, ...], hits: list[Hit]) -> Scan:
    if not data:
        return scan
    plain, unfinished = _without_escapes(scan.unfinished + data)
    text = scan.line + plain
    complete = _complete_bytes(text)
    after = replace(scan, position=scan.position + len(data), unfinished=unfinished, line=text[complete:])
    return _search(after, text[:complete], rules, hits)


def _without_escapes(data: bytes) -> tuple[bytes, bytes]:
    """Text without escape sequences, and the beginning of one at its end."""
    if b"\x1b" not in data:
        return data, b""
    unfinished = _UNFINISHED_ESCAPE.search(_ESCAPE.sub(lambda found: b"\0" * len(found[0]), data))
    cut = unfinished.start() if unfinished else len(data)
    return _ESCAPE.sub(b"", data[:cut]), data[cut:]


def _complete_bytes(text: bytes) -> int:
    """Bytes up to the last line break, and of what follows as many pieces as are full."""
    start = _last_break(text, 0, len(text)) + 1
    return start + (len(text) - start) // LINE_MAX_BYTES * LINE_MAX_BYTES


def _search(scan: Scan, text: bytes, rules: tuple[LineRule, ...], hits: list[Hit]) -> Scan:
    """Search complete lines; the text begins at the beginning of one."""
    spans = [(_first_line_of(rule, text), rule.id) for rule in rules if rule.id not in scan.found]
    found = sorted((span, rule) for span, rule in spans if span is not None)
    for (start, stop), rule in found:
        before = _lines_before(text, start, scan.context)
        hits.append(Hit(rule, shown(text[start:stop]), tuple(map(shown, before))))
    context = _lines_before(text, len(text), scan.context) if text else scan.context
    phase = last_declared(text) or scan.phase
    return replace(scan, context=context, found=scan.found | {rule for _, rule in found}, phase=phase)


def _first_line_of(rule: LineRule, text: bytes) -> tuple[int, int] | None:
    rarest, *others = rule.needles
    at = text.find(rarest)
    while at >= 0:
        start, stop = _line_around(text, at)
        if text.find(rarest, start, stop) >= 0 and all(text.find(needle, start, stop) >= 0 for needle in others):
            return start, stop
        at = text.find(rarest, stop)
    return None


def _line_around(text: bytes, at: int) -> tuple[int, int]:
    """Where the line begins and ends that has this byte."""
    begin = _last_break(text, 0, at) + 1
    start = begin + (at - begin) // LINE_MAX_BYTES * LINE_MAX_BYTES
    stops = [stop for stop in (text.find(b"\n", at), text.find(b"\r", at)) if stop >= 0]
    return start, min([*stops, start + LINE_MAX_BYTES, len(text)])


def _last_break(text: bytes, start: int, stop: int) -> int:
    return max(text.rfind(b"\n", start, stop), text.rfind(b"\r", start, stop))


def _lines_before(text: bytes, stop: int, earlier: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The last ten lines that are not blank before a place, each cut short."""
    lines: list[bytes] = []
    for line in _backwards(text, stop):
        if line.strip():
            lines.append(line[:SHOWN_LINE_BYTES])
        if len(lines) == CONTEXT_LINES:
            break
    return (*earlier, *reversed(lines))[-CONTEXT_LINES:]


def _backwards(text: bytes, stop: int) -> Iterator[bytes]:
    """Lines that end before a place, the last first."""
    while stop > 0:
        begin = _last_break(text, 0, stop) + 1
        if begin == stop:
            stop -= 1
            continue
        start = begin + (stop - 1 - begin) // LINE_MAX_BYTES * LINE_MAX_BYTES
        yield text[start:stop]
        stop = start
