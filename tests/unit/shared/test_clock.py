"""The manual clock, and times as text."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from shared.clock import ManualClock, parse_rfc3339, rfc3339


async def test_sleepers_wake_in_order_and_only_when_due() -> None:
    clock = ManualClock()
    woken: list[float] = []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    tasks = [asyncio.create_task(sleeper(seconds)) for seconds in (3, 1, 2)]
    await asyncio.sleep(0)
    await clock.advance(2)
    assert woken == [1, 2]
    await clock.advance(1)
    assert woken == [1, 2, 3]
    await asyncio.gather(*tasks)


def test_times_are_written_with_z_and_read_back() -> None:
    time = datetime(2026, 3, 4, 5, 6, 7, 890_000, tzinfo=UTC)
    assert rfc3339(time) == "2026-03-04T05:06:07.890Z"
    assert parse_rfc3339(rfc3339(time)) == time
    assert parse_rfc3339("2026-03-04T06:06:07.890+01:00") == time


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        parse_rfc3339("2026-03-04T05:06:07")
