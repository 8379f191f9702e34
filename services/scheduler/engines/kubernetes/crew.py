"""Does the same for many things at once, a limited number at a time; the first failure ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from shared.tasks import end

ThingT = TypeVar("ThingT")


async def for_each(things: Iterable[ThingT], work: Callable[[ThingT], Awaitable[None]], at_once: int) -> None:
    """Do the work for each of them; where it fails for one, what is not begun is left, and the error raised."""
    left = iter(things)

    async def worker() -> None:
        for thing in left:
            await work(thing)

    workers = [asyncio.create_task(worker()) for _ in range(at_once)]
    try:
        await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        await end(*workers)
    failures = [failure for each in workers if not each.cancelled() and (failure := each.exception())]
    if failures:
        raise failures[0]
