"""Does the same for many things at once, a limited number at a time; the first failure ends it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from shared.tasks import run_together

ThingT = TypeVar("ThingT")


async def for_each(things: Iterable[ThingT], work: Callable[[ThingT], Awaitable[None]], at_once: int) -> None:
    """Do the work for each of them; where it fails for one, what is not begun is left, and the error raised."""
    left = iter(things)

    async def worker() -> None:
        for thing in left:
            await work(thing)

    await run_together(*(worker() for _ in range(at_once)))
