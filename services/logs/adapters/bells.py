"""Waking those who follow a job when something of it was stored, within the process."""

from __future__ import annotations

import asyncio


class Bells:
    """One bell a job that somebody waits for; take it before looking, wait for it after."""

    def __init__(self) -> None:
        self._bells: dict[str, asyncio.Event] = {}
        self._rung: set[str] = set()

    def bell(self, job: str) -> asyncio.Event:
        """The event that is set when the job's logs change next."""
        return self._bells.setdefault(job, asyncio.Event())

    def ring(self, job: str) -> None:
        """Something of the job was stored."""
        self._rung.add(job)
        self.wake(job)

    def wake(self, job: str) -> None:
        """Something of the job was stored by another instance, which tells the rest of the world."""
        bell = self._bells.pop(job, None)
        if bell is not None:
            bell.set()

    def awaited(self) -> list[str]:
        """Jobs that somebody waits for."""
        return list(self._bells)

    def take_rung(self) -> set[str]:
        """The jobs of which something was stored since the last call."""
        rung, self._rung = self._rung, set()
        return rung
