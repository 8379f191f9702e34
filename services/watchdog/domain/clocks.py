"""Clocks of nodes against the clock of the message stream, so that lines of several nodes can be put in order.

A chunk says when its bytes were there by its node's clock, and the stream says when the chunk arrived by its own. The
difference is the offset of the clocks and the time on the way; the time on the way is never negative and mostly short,
so the smallest difference of the last minutes is the offset, as good as the quickest chunk was quick.

One or two chunks may all have been slow. Of a node that sent only few its clock is taken to be right, where the
differences are such as the way explains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WINDOW_MS: Final = 10 * 60 * 1000
NODES_MAX: Final = 100_000
TRUSTED_CHUNKS: Final = 8
SLOW_WAY_MS: Final = 10_000


@dataclass(slots=True)
class _Window:
    """The smallest differences of this window and of the one before it."""

    begun_ms: int
    smallest: int
    before: int | None = None
    chunks: int = 1

    @property
    def offset_ms(self) -> int:
        smallest = self.smallest if self.before is None else min(self.smallest, self.before)
        may_be_the_way = self.chunks < TRUSTED_CHUNKS and 0 <= smallest < SLOW_WAY_MS
        return 0 if may_be_the_way else smallest


class Clocks:
    """What is known of the clocks of nodes."""

    def __init__(self) -> None:
        self._windows: dict[str, _Window] = {}

    def note(self, node: str, node_ms: int, arrived_ms: int) -> None:
        """A chunk arrived whose last bytes were there at this time of the node's clock."""
        difference, window = arrived_ms - node_ms, self._windows.get(node)
        if window is None:
            if len(self._windows) < NODES_MAX:
                self._windows[node] = _Window(arrived_ms, difference)
        elif arrived_ms - window.begun_ms > WINDOW_MS:
            self._windows[node] = _Window(arrived_ms, difference, window.smallest, window.chunks)
        else:
            window.smallest = min(window.smallest, difference)
            window.chunks += 1

    def corrected_ms(self, node: str, node_ms: int) -> int:
        """A time of the node's clock by the stream's."""
        window = self._windows.get(node)
        return node_ms + window.offset_ms if window is not None else node_ms
