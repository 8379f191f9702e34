"""Which frames cannot hold a literal, told without unpacking them: a small Bloom filter of four-byte pieces a frame.

The text is first made simpler: letters become small, digits become one digit. What varies from line to line in a
training log, its numbers, then adds nothing to the filter, so that it is full of the words that a frame uses and of
little else: 256 to 4096 bytes for 256 KiB of text. A literal can be in a frame only where all its pieces are. Any part
of a word can be looked for, in any case; a literal of digits alone is in every filter and has to be looked for in the
text itself.

A filter covers the end of the frame before, too (`OVERLAP_BYTES`), so that what stands across a border is found in the
second frame's filter. Longer literals are not looked up. Where text has escape sequences in it, both what was written
and what is shown count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

OVERLAP_BYTES: Final = 256
PIECE_BYTES: Final = 4

_BITS_MAX: Final = 15
_BITS_MIN: Final = 11
_MOST_SET: Final = 0.3
_MULTIPLIER: Final = np.uint32(2_654_435_761)
_SIMPLER: Final = bytes(
    ord("0") if chr(byte).isdecimal() and byte < 128 else byte + 32 if 65 <= byte <= 90 else byte for byte in range(256)
)

Hashes = NDArray[np.uint32]


def filter_of(*texts: bytes) -> bytes:
    """The filter that covers all of the texts; empty where there is nothing to cover."""
    present = np.zeros(1 << _BITS_MAX, dtype=np.bool_)
    for text in texts:
        for hashes in _hashes(text):
            present[hashes] = True
    if not present.any():
        return b""
    while len(present) > 1 << _BITS_MIN and _folded(present).mean() <= _MOST_SET:
        present = _folded(present)
    return np.packbits(present, bitorder="little").tobytes()


class LiteralFilter:
    """A literal that is looked up in filters."""

    def __init__(self, literal: bytes) -> None:
        usable = PIECE_BYTES <= len(literal) <= OVERLAP_BYTES
        pieces = np.unique(np.concatenate(_hashes(literal))) if usable else np.empty(0, dtype=np.uint32)
        self._pieces: Hashes = pieces

    @property
    def is_selective(self) -> bool:
        """Whether any frame can be left out by it."""
        return len(self._pieces) > 0

    def may_be_in(self, filters: Sequence[bytes]) -> list[bool]:
        """For each frame whether it may hold the literal; an empty filter excludes nothing."""
        answers = [True] * len(filters)
        for size in {len(each) for each in filters if each}:
            chosen = [number for number, each in enumerate(filters) if len(each) == size]
            table = np.frombuffer(b"".join(filters[number] for number in chosen), dtype=np.uint8).reshape(-1, size)
            for number, found in zip(chosen, self._look_up(table), strict=True):
                answers[number] = bool(found)
        return answers

    def _look_up(self, table: NDArray[np.uint8]) -> NDArray[np.bool_]:
        places = self._pieces & np.uint32(table.shape[1] * 8 - 1)
        bits = np.left_shift(np.uint8(1), (places & np.uint32(7)).astype(np.uint8))
        found: NDArray[np.bool_] = ((table[:, places >> np.uint32(3)] & bits) != 0).all(axis=1)
        return found


def _folded(present: NDArray[np.bool_]) -> NDArray[np.bool_]:
    half = len(present) // 2
    return present[:half] | present[half:]


def _hashes(text: bytes) -> list[Hashes]:
    """A hash of every four bytes that stand side by side, in four parts by where they begin."""
    simpler = text.translate(_SIMPLER)
    parts = []
    for start in range(PIECE_BYTES):
        count = (len(simpler) - start) // PIECE_BYTES
        if count > 0:
            pieces = np.frombuffer(simpler, dtype="<u4", count=count, offset=start)
            parts.append((pieces * _MULTIPLIER) >> np.uint32(32 - _BITS_MAX))
    return parts
