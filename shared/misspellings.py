"""Names that were most likely meant to be others: those that two slips of the keyboard make of a known one.

A slip leaves a character out, adds one, takes another, or swaps two neighbours. Of a short name one slip makes another
name soon enough, so that two are too many there.

How much two names share (`difflib`) does not tell a slip from another name: `NAST_CAFILE` shares less with
`NATS_CA_FILE` than `SECRET_KEYS_FILE` with `S3_SECRET_KEY_FILE`, which is a variable of another service.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

SLIPS_MAX: Final = 2
_SHORT: Final = 6


def meant(name: str, known: Iterable[str]) -> str | None:
    """The known name that this one is a misspelling of; None where it is one of them, or like none."""
    slips = {each: slips_between(name, each) for each in sorted(known)}
    best = min(slips, key=lambda each: slips[each], default="")
    allowed = 1 if len(best) < _SHORT else SLIPS_MAX
    return best if best and 0 < slips[best] <= allowed else None


def slips_between(one: str, other: str) -> int:
    """The least number of slips that make one of the other."""
    before: list[int] = []
    above = list(range(len(other) + 1))
    for row, here in enumerate(one, 1):
        line = [row]
        for column, there in enumerate(other, 1):
            least = min(above[column] + 1, line[-1] + 1, above[column - 1] + (here != there))
            if row > 1 and column > 1 and here == other[column - 2] and one[row - 2] == there:
                least = min(least, before[column - 2] + 1)
            line.append(least)
        before, above = above, line
    return above[-1]
