"""Work that goes on unless something speaks against it."""

from __future__ import annotations

import asyncio

import pytest

from services.diagnoser.interrupting import CutShortError, unless


async def never() -> None:
    await asyncio.Event().wait()


async def give(value: int) -> int:
    return value


async def test_the_work_gives_what_it_found_and_the_waits_are_ended() -> None:
    ended = asyncio.Event()

    async def wait() -> None:
        try:
            await never()
        finally:
            ended.set()

    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    assert await unless({"job": wait()}, work()) == 7
    assert ended.is_set()


async def test_it_is_cut_short_only_after_it_has_cleaned_up() -> None:
    stop, cleaned = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            stop.set()
            await never()
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    with pytest.raises(CutShortError) as cut:
        await unless({"job": never(), "leaving": stop.wait()}, work())
    assert cut.value.by == "leaving"
    assert cleaned.is_set()


async def test_work_that_is_done_in_the_same_moment_counts() -> None:
    assert await unless({"job": give(1)}, give(2)) == 2


async def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        await unless({"job": never()}, work())
