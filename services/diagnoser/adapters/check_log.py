"""Checks on the stream CHECKS: puts their events on record, and follows them, so that every instance knows all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from services.diagnoser.domain.checks import Checks
from shared.bus import Bus, CaughtUp
from shared.bus.streams import CHECKS
from shared.clock import Clock
from shared.events import CheckEnded, CheckRequested, CheckStarted, Event
from shared.jobs import Recorded

_SUBJECTS: Final = ("tm.check.>",)


class CheckLog:
    """Remembers checks over restarts, and for all instances alike."""

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock
        self._sequence = 0
        self._moved = asyncio.Condition()
        self.checks = Checks()
        self.caught_up = asyncio.Event()

    async def run(self) -> None:
        """Follow the stream for ever."""
        async for batch in self._bus.follow_batches(after=0, stream=CHECKS, subjects=_SUBJECTS):
            for item in batch:
                if isinstance(item, Recorded):
                    self.checks.take(item)
                elif isinstance(item, CaughtUp):
                    self.caught_up.set()
                self._sequence = item.sequence
            async with self._moved:
                self._moved.notify_all()

    async def put(self, payload: CheckRequested | CheckStarted | CheckEnded) -> None:
        """Put an event on record, and return once it is known here. Raises BusUnavailableError."""
        event = Event.of(payload, job=payload.check, attempt=0, time=self._clock.now(), owner="", project="")
        await self.reached(await self._bus.observe(event, subject=f"tm.check.{payload.check}.{payload.SUFFIX}"))

    async def reached(self, sequence: int) -> None:
        """Return once the event with this sequence is known here."""
        await self.until(lambda: self._sequence >= sequence)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Return once this is true of the checks as they are known here."""
        async with self._moved:
            await self._moved.wait_for(is_so)

    async def ended(self, check: str) -> None:
        """Return once the end of the check is known here, whoever put it on record."""
        await self.until(lambda: self.checks.has_ended(check))

    async def has_ended(self, check: str) -> bool:
        """Whether the end of the check is on record, whoever put it there. Raises BusUnavailableError."""
        return await self._bus.history.last_sequence(f"tm.check.{check}.{CheckEnded.SUFFIX}", stream=CHECKS) > 0
