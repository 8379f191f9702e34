"""Many things at once, a limited number at a time."""

from __future__ import annotations

import asyncio

import pytest

from services.scheduler.engines.kubernetes.crew import for_each


async def test_all_is_done_and_never_more_at_once_than_is_allowed():
    done: list[int] = []
    busy = most = 0

    async def work(number: int) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0)
        busy -= 1
        done.append(number)

    await for_each(range(10), work, 3)
    assert sorted(done) == list(range(10))
    assert most == 3


async def test_a_failure_ends_it_and_leaves_what_was_not_begun():
    begun: list[int] = []

    async def work(number: int) -> None:
        begun.append(number)
        await asyncio.sleep(0)
        if number == 1:
            raise ValueError("one")

    with pytest.raises(ValueError, match="one"):
        await for_each(range(100), work, 2)
    assert len(begun) < 10
