"""Which large gang is being made just now: its pods are not watched until all of them are there.

A pod that is made comes back through the watch as an event, which the API server has to write and we to read. For one
of thousands that are being made at once this takes time from making the others, and says nothing: none of them can run
before its gang is released.

It is one gang at a time: a watch that catches up with what was left out is sent again what others did meanwhile, and
among others are the large gangs that are made at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from shared.ids import GangId

LARGE: Final = 500
"""Replicas from which on it is worth catching up: fewer are made in less than a second."""


class Making:
    """The gang, and who is told when it changes; one that is not large, or not the first, is none."""

    def __init__(self, large: int = LARGE) -> None:
        self._large = large
        self._gang: GangId | None = None
        self._listeners: set[Callable[[], None]] = set()

    @property
    def gangs(self) -> frozenset[GangId]:
        """The one that is being made, if any."""
        return frozenset() if self._gang is None else frozenset({self._gang})

    @contextmanager
    def of(self, gang: GangId, replicas: int) -> Iterator[None]:
        """The gang is being made for as long as this lasts."""
        if replicas < self._large or self._gang is not None:
            yield
            return
        self._gang = gang
        self._tell()
        try:
            yield
        finally:
            self._gang = None
            self._tell()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have a function told of each change, until the returned one is called."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def _tell(self) -> None:
        for listener in tuple(self._listeners):
            listener()
