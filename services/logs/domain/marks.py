"""Times of bytes: pairs of an offset and the Unix milliseconds at which the bytes from there on were seen.

A frame keeps at most `MARKS_MAX` of those that came with its chunks, as differences in variable-length numbers: three
to five bytes each. Where there are more, only the first and the last of those that are close together are kept;
`spacing` says how close, and so how exact times are. Marks are the time index of a log, and what lines of several
replicas are merged by. Clocks may be set back, so differences may be negative.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from services.logs.domain.frames import MARKS_MAX_BYTES, Frame
from services.logs.domain.varints import packed_varint, taken_varint

MARKS_MAX: Final = 128
_LEAST_SPACING_BYTES: Final = 64

Mark = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks in the order of the bytes, at least one."""

    each: tuple[Mark, ...]
    spacing: int = 0

    def time_at(self, offset: int) -> int:
        """When the byte at an offset was seen."""
        found = bisect_right(self.each, offset, key=lambda mark: mark[0])
        return self.each[max(0, found - 1)][1]

    def offset_since(self, since_ms: int) -> int | None:
        """Where what was seen at a time or later begins; None where no mark is so late.

        Between two marks that are close together others may have been left out; then it is the first of the two.
        """
        found = next((number for number, (_, millis) in enumerate(self.each) if millis >= since_ms), None)
        if not found:
            return None if found is None else self.each[0][0]
        before, offset = self.each[found - 1][0], self.each[found][0]
        return before if offset - before < self.spacing else offset


def thinned(marks: Iterable[Mark], spacing: int = 0) -> Marks:
    """Marks of which some may have been left out already, so few that a frame has room for them."""
    given = list(marks)
    kept = given
    while len(kept) > MARKS_MAX:
        spacing = max(2 * spacing, _LEAST_SPACING_BYTES)
        kept = _apart(given, spacing)
    return Marks(tuple(kept), spacing)


def encode_marks(marks: Marks) -> bytes:
    """Marks of a frame that begins with the first of them; those that have no room any more are left out."""
    packed = bytearray(packed_varint(marks.spacing))
    offset, millis = marks.each[0]
    for at, time_ms in marks.each[1:]:
        one = packed_varint(at - offset) + packed_varint(_zigzag(time_ms - millis))
        if len(packed) + len(one) > MARKS_MAX_BYTES:
            break
        packed += one
        offset, millis = at, time_ms
    return bytes(packed)


def marks_of(frame: Frame) -> Marks:
    """All marks of a frame; the first stands at its first byte."""
    marks = [(frame.offset, frame.first_ms)]
    if not frame.marks:
        return Marks(tuple(marks))
    offset, millis = marks[0]
    spacing, at = taken_varint(frame.marks, 0)
    while at < len(frame.marks):
        step, at = taken_varint(frame.marks, at)
        change, at = taken_varint(frame.marks, at)
        offset, millis = offset + step, millis + _unzigzag(change)
        marks.append((offset, millis))
    return Marks(tuple(marks), spacing)


def _apart(marks: list[Mark], spacing: int) -> list[Mark]:
    kept: list[Mark] = []
    begun, passed = 0, None
    for mark in marks:
        if kept and mark[0] - begun < spacing:
            passed = mark
            continue
        kept += [mark] if passed is None else [passed, mark]
        begun, passed = mark[0], None
    return kept if passed is None else [*kept, passed]


def _zigzag(number: int) -> int:
    return number * 2 if number >= 0 else -number * 2 - 1


def _unzigzag(number: int) -> int:
    return number // 2 if number % 2 == 0 else -(number + 1) // 2
