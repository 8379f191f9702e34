"""When which bytes of a file were there: pairs of an offset and a time, few enough to travel in a header.

Each time the agent finds that a file has grown it notes the old size with the file's time of modification. While bytes
wait to be sent the marks pile up; past a limit every second one is dropped, which makes times later, never earlier.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from shared.logs_wire import Times

MAX_MARKS: Final = 128


class Marks:
    """Ascending offsets, each with the time at which the bytes from there on were seen, in Unix milliseconds."""

    __slots__ = ("_marks", "_size")

    def __init__(self, size: int = 0) -> None:
        self._size = size
        self._marks: list[tuple[int, int]] = []

    def grown(self, size: int, millis: int) -> None:
        """The file has this size now; its new bytes were there at that time."""
        if size <= self._size:
            return
        self._marks.append((self._size, millis))
        self._size = size
        if len(self._marks) > MAX_MARKS:
            self._marks = _thinned(self._marks)

    def between(self, start: int, stop: int) -> Times:
        """Times of the bytes from `start` to `stop`; the first pair is for `start` itself."""
        first = bisect_right(self._marks, start, key=_offset) - 1
        inside = self._marks[max(first, 0) : bisect_right(self._marks, stop - 1, key=_offset)]
        return tuple((max(offset, start), millis) for offset, millis in inside)

    def forget_before(self, offset: int) -> None:
        """Nothing before this offset will be asked for again."""
        keep_from = bisect_right(self._marks, offset, key=_offset) - 1
        if keep_from > 0:
            del self._marks[:keep_from]


def _offset(mark: tuple[int, int]) -> int:
    return mark[0]


def _thinned(marks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Half as many: two neighbours become one that begins where the first does, at the time of the second."""
    paired = [(a[0], b[1]) for a, b in zip(marks[::2], marks[1::2], strict=False)]
    return paired + marks[len(paired) * 2 :]
