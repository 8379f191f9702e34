r"""Line breaks in raw log bytes: `\n`, `\r\n` as one, and a `\r` alone, with which progress bars start over.

The same rule makes lines of cleaned text (`cleaning`), counts them in the index of a segment, and finds the tail.
"""

from __future__ import annotations

import re
from typing import Final

_BREAK: Final = re.compile(rb"\r\n|\n|\r")


def count_breaks(data: bytes, *, after_cr: bool = False) -> int:
    r"""Line breaks that end in `data`; `after_cr`: the byte before it was a `\r`, which was counted there."""
    continued = 1 if after_cr and data.startswith(b"\n") else 0
    return data.count(b"\r") + data.count(b"\n") - data.count(b"\r\n") - continued


def start_of_line(data: bytes, number: int, *, after_cr: bool = False) -> int:
    r"""Where the line behind so many breaks begins in the data; `after_cr` as for `count_breaks`."""
    start = 1 if after_cr and data.startswith(b"\n") else 0
    if number <= 0:
        return start
    ends = (match.end() for match in _BREAK.finditer(data, start))
    return next((end for count, end in enumerate(ends, 1) if count == number), len(data))


def tail_start(data: bytes, lines: int) -> int | None:
    r"""Where the last `lines` lines of the data begin; None where the data has not that many breaks before them.

    A break at the very end belongs to the last line. With `\r\n` cut in two by the start of `data` one break too many
    is seen, which gives one line less only where the cut is in the very tail that was asked for.
    """
    if lines <= 0:
        return len(data)
    starts = [match.end() for match in _BREAK.finditer(data) if match.end() < len(data)]
    return starts[-lines] if len(starts) >= lines else None
