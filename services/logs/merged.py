"""Lines of several replicas in the order in which they were seen: a page at a time.

From each log lines are taken one after the other, and of the next lines of all logs always the oldest. The time of a
line is that at which the agent of its node saw it (`services.logs.domain.marks`), so that clocks of nodes that differ
shift lines against each other, but never within a log. A page's cursor says how far each log was read.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from services.logs.adapters.files import StoredLog
from services.logs.domain.cleaning import clean
from services.logs.domain.cursor import Cursor, Place
from services.logs.domain.marks import Marks

LINES_MAX: Final = 1000
PAGE_BYTES: Final = 1024 * 1024
_READ_BYTES: Final = 64 * 1024
_LINE_MAX_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class MergedLine:
    """A line, where it stands, and when it was seen."""

    place: Place
    offset: int
    stop: int
    time_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class MergedPage:
    """Lines in order; `complete`: all logs have ended and all of them was given."""

    lines: tuple[MergedLine, ...]
    cursor: Cursor
    complete: bool


@dataclass(slots=True)
class _Lines:
    """The lines of one log from an offset on."""

    log: StoredLog
    offset: int
    raw: bool
    _marks: Marks | None = None
    _marks_stop: int = -1
    _last_ms: int = 0

    @property
    def place(self) -> Place:
        return self.log.replica.role, self.log.replica.index

    def each(self) -> Iterator[MergedLine]:
        data, base, final = b"", self.offset, False
        while not final:
            more = self.log.read(base + len(data), min(self.log.size, base + len(data) + _READ_BYTES))
            final = not more
            data += more
            for line in self._whole_lines(data, base, final=final):
                yield line
                self.offset = line.stop
            data, base = data[self.offset - base :], self.offset

    def _whole_lines(self, data: bytes, base: int, *, final: bool) -> Iterator[MergedLine]:
        text, at = data.replace(b"\r\n", b"\x00\n").replace(b"\r", b"\n"), 0
        while at < len(text):
            end = text.find(b"\n", at) + 1
            if end == 0:
                if not (final and self.log.position.ended) and len(text) - at < _LINE_MAX_BYTES:
                    return
                end = len(text)
            elif end == len(data) and data.endswith(b"\r") and not final:
                return
            yield self._line(base + at, base + end, data[at:end])
            at = end

    def _line(self, start: int, stop: int, data: bytes) -> MergedLine:
        if start >= self._marks_stop:
            self._marks, self._marks_stop = self.log.marks_near(start)
        self._last_ms = max(self._last_ms, self._marks.time_at(start) if self._marks else 0)
        text = data.decode("utf-8", "replace") if self.raw else clean(data, final=True).text.rstrip("\n")
        return MergedLine(self.place, start, stop, self._last_ms, text)


def merged_page(
    logs: Mapping[Place, tuple[StoredLog, int]], attempt: int, limit: int, *, until_ms: int | None, raw: bool
) -> MergedPage:
    """The next lines of logs that are read from these offsets on; blocks."""
    sources = {place: _Lines(log, start, raw) for place, (log, start) in logs.items()}
    offsets = {place: start for place, (_, start) in logs.items()}
    lines: list[MergedLine] = []
    size = 0
    merged = heapq.merge(*(source.each() for source in sources.values()), key=lambda line: line.time_ms)
    whole = all(log.position.ended for log, _ in logs.values())
    for line in merged:
        if until_ms is not None and line.time_ms > until_ms:
            return MergedPage(tuple(lines), Cursor(attempt, offsets), complete=True)
        if len(lines) == limit or size >= PAGE_BYTES:
            return MergedPage(tuple(lines), Cursor(attempt, offsets), complete=False)
        lines.append(line)
        size += len(line.text)
        offsets[line.place] = line.stop
    return MergedPage(tuple(lines), Cursor(attempt, offsets), complete=whole)
