"""Waking those who follow a job when something of it was stored, within the process."""

from __future__ import annotations

import asyncio


class Listener:
    """Hears which jobs were rung, and is asked for them from time to time."""

    def __init__(self) -> None:
        self._rung: set[str] = set()

    def hear(self, job: str) -> None:
        """Something of the job was stored."""
        self._rung.add(job)

    def take(self) -> set[str]:
        """The jobs of which something was stored since the last call."""
        rung, self._rung = self._rung, set()
        return rung


class Bells:
    """One bell a job that somebody waits for; take it before looking, wait for it after."""

    def __init__(self) -> None:
        self._bells: dict[str, asyncio.Event] = {}
        self._listeners: list[Listener] = []

    def listener(self) -> Listener:
        """Somebody who hears of every job from now on, for as long as the service runs."""
        self._listeners.append(Listener())
        return self._listeners[-1]

    def bell(self, job: str) -> asyncio.Event:
        """The event that is set when the job's logs change next."""
        return self._bells.setdefault(job, asyncio.Event())

    def ring(self, job: str) -> None:
        """Something of the job was stored."""
        for listener in self._listeners:
            listener.hear(job)
        self.wake(job)

    def wake(self, job: str) -> None:
        """Something of the job was stored by another instance, which tells the rest of the world."""
        bell = self._bells.pop(job, None)
        if bell is not None:
            bell.set()

    def awaited(self) -> list[str]:
        """Jobs that somebody waits for."""
        return list(self._bells)
