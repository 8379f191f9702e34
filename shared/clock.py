"""Time as a dependency: services take a `Clock`, tests pass a `ManualClock` and move it by hand.

Times are aware UTC datetimes; `rfc3339` prints them with milliseconds and `Z`, `parse_rfc3339` reads any RFC 3339 time.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> datetime:
        """Present time, aware, UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds of this clock."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that moves only when `advance` is called; sleepers wake in order of their time."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._order = itertools.count()
        self._sleepers: list[tuple[datetime, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._now

    async def sleep(self, seconds: float) -> None:
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + timedelta(seconds=seconds), next(self._order), wake))
        await wake

    async def advance(self, seconds: float) -> None:
        """Move time forward and let every sleeper that is due run."""
        self._now += timedelta(seconds=seconds)
        while self._sleepers and self._sleepers[0][0] <= self._now:
            wake = heapq.heappop(self._sleepers)[2]
            if not wake.done():
                wake.set_result(None)
            await asyncio.sleep(0)
        await asyncio.sleep(0)


def rfc3339(time: datetime) -> str:
    """The time as `2026-01-02T03:04:05.678Z`."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_rfc3339(text: str) -> datetime:
    """The reverse of `rfc3339`; raises ValueError where the text is no time with a zone."""
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; RFC 3339 times end in Z or +hh:mm")
    try:
        return time.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r} is a time of no year from 1 to 9999") from error
