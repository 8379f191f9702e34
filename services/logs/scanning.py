"""Searching one log: a piece of it at a time, so that a search can be stopped, watched and taken up again.

A piece is one segment, or what is not in segments yet. Of segments that were packed anew only the frames are unpacked
whose filter may hold the literal, and whose times fit. Such frames are searched in runs; a run is extended to whole
lines at both ends, so that what stands across a border is found, once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from services.logs.adapters.files import StoredLog
from services.logs.adapters.segment_files import Segment
from services.logs.domain.cleaning import clean
from services.logs.domain.filters import LiteralFilter
from services.logs.domain.frames import Placed
from services.logs.domain.matching import Matcher, matching_lines

LINE_MAX_BYTES: Final = 64 * 1024
SHOWN_BYTES: Final = 4096
_TAIL_PIECE_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Unix milliseconds; None where a side is open."""

    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether it excludes nothing."""
        return self.since_ms is None and self.until_ms is None

    def touches(self, first_ms: int, last_ms: int) -> bool:
        """Whether something between two times may be in it."""
        return not (
            (self.since_ms is not None and last_ms < self.since_ms)
            or (self.until_ms is not None and first_ms > self.until_ms)
        )


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that matches: where it begins, where the next one does, when it was seen, and its text, shortened."""

    offset: int
    stop: int
    time_ms: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a piece of a log came to; `next_offset` is where to go on, None at the end of the log."""

    hits: tuple[Hit, ...]
    searched_bytes: int
    next_offset: int | None


def scan_piece(
    log: StoredLog, matcher: Matcher, start: int, times: TimeRange, limit: int, *, size: int | None = None
) -> Scanned:
    """Search from an offset, the beginning of a line, to the end of the piece that it is in; blocks."""
    size = log.size if size is None else size
    runs, stop = _runs(log, matcher, start, min(size, log.size), times)
    hits: list[Hit] = []
    for first, last in runs:
        for hit in _hits_in(log, matcher, first, last):
            if hit.offset < start or not _fits(hit, times):
                continue
            hits.append(hit)
            start = hit.stop
            if len(hits) == limit:
                return Scanned(tuple(hits), hit.stop - first, hit.stop if hit.stop < size else None)
    return Scanned(tuple(hits), sum(last - first for first, last in runs), stop if stop < size else None)


def _fits(hit: Hit, times: TimeRange) -> bool:
    return times.is_open or (hit.time_ms is not None and times.touches(hit.time_ms, hit.time_ms))


def _runs(
    log: StoredLog, matcher: Matcher, start: int, size: int, times: TimeRange
) -> tuple[list[tuple[int, int]], int]:
    """Ranges to search, and where the next piece begins."""
    segment = log.segments.segment_at(start) if start < log.segments.snapshot.size else None
    if segment is None:
        stop = min(size, start + _TAIL_PIECE_BYTES)
        return [(_line_start(log, start), _line_stop(log, stop))], stop
    frames = log.segments.reader.frames(segment)
    stop = min(size, frames[-1].frame.stop) if frames else start
    candidates = [
        placed.frame
        for placed, wanted in zip(frames, _wanted(log, segment, frames, matcher), strict=True)
        if wanted and placed.frame.stop > start and times.touches(placed.frame.first_ms, placed.frame.last_ms)
    ]
    runs: list[tuple[int, int]] = []
    for frame in candidates:
        if runs and runs[-1][1] == frame.offset:
            runs[-1] = (runs[-1][0], frame.stop)
        else:
            runs.append((frame.offset, frame.stop))
    return [(_line_start(log, max(first, start)), _line_stop(log, last)) for first, last in runs], stop


def _wanted(log: StoredLog, segment: Segment, frames: Sequence[Placed], matcher: Matcher) -> list[bool]:
    literal = LiteralFilter(matcher.literal)
    footer = log.segments.reader.footer(segment) if segment.frames is None and literal.is_selective else None
    return [True] * len(frames) if footer is None else literal.may_be_in(footer.filters)


def _line_start(log: StoredLog, offset: int) -> int:
    """Where the line begins that an offset is in; not more than a long line before it."""
    first = max(0, offset - LINE_MAX_BYTES)
    before = log.read(first, offset)
    found = max(before.rfind(b"\n"), before.rfind(b"\r")) + 1
    return first + found if found or first == 0 else offset


def _line_stop(log: StoredLog, offset: int) -> int:
    """Where the line ends that goes on at an offset; not more than a long line behind it."""
    if log.read(max(0, offset - 1), offset) in (b"\n", b"\r"):
        return offset
    behind = log.read(offset, min(log.size, offset + LINE_MAX_BYTES)).replace(b"\r", b"\n")
    found = behind.find(b"\n") + 1
    return offset + (found or len(behind))


def _hits_in(log: StoredLog, matcher: Matcher, start: int, stop: int) -> Iterator[Hit]:
    """Matching lines of a range that begins and ends with lines; lines without an end are cut now and then."""
    carried = b""
    for at, piece in log.texts(start, stop):
        text, base = carried + piece, at - len(carried)
        whole = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        if whole == 0 and len(text) >= LINE_MAX_BYTES:
            whole = len(text)
        yield from _hits_of(log, matcher, text[:whole] if whole < len(text) else text, base)
        carried = text[whole:]
    yield from _hits_of(log, matcher, carried, stop - len(carried))


def _hits_of(log: StoredLog, matcher: Matcher, text: bytes, base: int) -> Iterator[Hit]:
    for start, stop in matching_lines(matcher, text):
        offset = base + start
        yield Hit(offset, min(base + stop + 1, base + len(text)), log.time_of(offset), _shown(text[start:stop]))


def _shown(line: bytes) -> str:
    return clean(line[:SHOWN_BYTES], final=True).text
