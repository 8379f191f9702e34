"""Several blocking iterators read at once, their values handed out one after the other as they come.

Each iterator runs in a thread of its own and puts into one bounded queue, so a reader that is slow slows the sources
and nothing piles up. While nothing comes the reader gets a `Tick`, so that it can look at the clock. The threads are
daemons: they end with the process, or when their source does.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

T = TypeVar("T")

TICK_S: Final = 0.25
MOST_WAITING: Final = 1024


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """A value, and the name of the source that it came from."""

    source: str
    value: T


@dataclass(frozen=True, slots=True)
class Finished:
    """A source has no more values; with the error that ended it, where one did."""

    source: str
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """Nothing came for a moment."""


class Merger(Generic[T]):
    """Add sources, then iterate; it is for the reader to stop, as sources may be added at any time."""

    def __init__(self, tick_s: float = TICK_S) -> None:
        self._queue: queue.Queue[Item[T] | Finished] = queue.Queue(MOST_WAITING)
        self._tick_s = tick_s

    def add(self, source: str, values: Iterable[T]) -> None:
        """Start reading a source."""
        threading.Thread(target=self._read, args=(source, values), name=f"read-{source}", daemon=True).start()

    def put(self, source: str, value: T) -> None:
        """Hand a value in from outside, on behalf of a source."""
        self._queue.put(Item(source, value))

    def __iter__(self) -> Iterator[Item[T] | Finished | Tick]:
        while True:
            try:
                yield self._queue.get(timeout=self._tick_s)
            except queue.Empty:
                yield Tick()

    def _read(self, source: str, values: Iterable[T]) -> None:
        try:
            for value in values:
                self.put(source, value)
        except Exception as error:  # noqa: BLE001  # whatever ends a source is the reader's to know
            self._queue.put(Finished(source, error))
        else:
            self._queue.put(Finished(source))
