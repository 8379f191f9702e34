"""Which large gangs are being made just now: their pods are not watched until all of them are there.

A pod that is made comes back through the watch as an event, which the API server has to write and we to read. For one
of thousands that are being made at once this takes time from making the others, and says nothing: none of them can run
before its gang is released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from shared.ids import GangId

LARGE: Final = 100
"""Replicas from which on it is worth the two requests by which a watch leaves a gang out and takes it in again."""


class Making:
    """The gangs, and who is told when they change; a gang that is not large is none of them."""

    def __init__(self, large: int = LARGE) -> None:
        self._large = large
        self._gangs: set[GangId] = set()
        self._listeners: set[Callable[[], None]] = set()

    @property
    def gangs(self) -> frozenset[GangId]:
        """Those that are being made."""
        return frozenset(self._gangs)

    @contextmanager
    def of(self, gang: GangId, replicas: int) -> Iterator[None]:
        """The gang is being made for as long as this lasts."""
        if replicas < self._large:
            yield
            return
        self._gangs.add(gang)
        self._tell()
        try:
            yield
        finally:
            self._gangs.discard(gang)
            self._tell()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have a function told of each change, until the returned one is called."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def _tell(self) -> None:
        for listener in tuple(self._listeners):
            listener()
