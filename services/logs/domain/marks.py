"""Times of bytes: pairs of an offset and the Unix milliseconds at which the bytes from there on were seen.

A frame keeps some of those that came with its chunks, at most two for every two KiB, as differences in variable-length
numbers: three to five bytes each. They are the time index of a log, and what lines of several replicas are merged by.
Clocks may be set back, so differences may be negative.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

from services.logs.domain.frames import MARKS_MAX_BYTES, Frame

SPACING_BYTES: Final = 2048

Mark = tuple[int, int]


def thinned(marks: Iterable[Mark]) -> list[Mark]:
    """So few marks that a frame has room for them: of those that are close together the first and the last."""
    kept: list[Mark] = []
    begun, passed = 0, None
    for mark in marks:
        if kept and mark[0] - begun < SPACING_BYTES:
            passed = mark
            continue
        kept += [mark] if passed is None else [passed, mark]
        begun, passed = mark[0], None
    return kept if passed is None else [*kept, passed]


def encode_marks(marks: Sequence[Mark], offset: int, millis: int) -> bytes:
    """Marks of a frame that begins at this offset and time; those that have no room any more are left out."""
    packed = bytearray()
    for at, time_ms in marks:
        one = _packed(at - offset) + _packed(_zigzag(time_ms - millis))
        if len(packed) + len(one) > MARKS_MAX_BYTES:
            break
        packed += one
        offset, millis = at, time_ms
    return bytes(packed)


def marks_of(frame: Frame) -> list[Mark]:
    """All marks of a frame in order; the first stands at its first byte."""
    marks = [(frame.offset, frame.first_ms)]
    offset, millis, at = frame.offset, frame.first_ms, 0
    while at < len(frame.marks):
        step, at = _taken(frame.marks, at)
        change, at = _taken(frame.marks, at)
        offset, millis = offset + step, millis + _unzigzag(change)
        marks.append((offset, millis))
    return marks


def time_at(marks: Sequence[Mark], offset: int) -> int:
    """When the byte at an offset was seen; the marks must not be empty."""
    found = bisect_right(marks, offset, key=lambda mark: mark[0])
    return marks[max(0, found - 1)][1]


def offset_since(marks: Sequence[Mark], since_ms: int, *, exact: bool = False) -> int | None:
    """Where what was seen at a time or later begins; None where no mark is so late.

    Between two that are close together others may have been left out, so that the earlier one is given, but of `exact`
    marks, of which none was.
    """
    found = next((number for number, (_, millis) in enumerate(marks) if millis >= since_ms), None)
    if not found:
        return None if found is None else marks[0][0]
    before, offset = marks[found - 1][0], marks[found][0]
    return offset if exact or offset - before >= SPACING_BYTES else before


def _zigzag(number: int) -> int:
    return number * 2 if number >= 0 else -number * 2 - 1


def _unzigzag(number: int) -> int:
    return number // 2 if number % 2 == 0 else -(number + 1) // 2


def _packed(number: int) -> bytes:
    packed = bytearray()
    while number >= 0x80:
        packed.append(number & 0x7F | 0x80)
        number >>= 7
    packed.append(number)
    return bytes(packed)


def _taken(packed: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = packed[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return number, at
        shift += 7
