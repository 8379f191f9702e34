"""Doing something for as long as nothing speaks against it.

What speaks against it is waited for beside the work; as soon as one of these waits returns, the work is cancelled, and
has ended, with everything that it cleans up behind itself, before `CutShortError` is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from shared.tasks import end

Found = TypeVar("Found")
Wait = Coroutine[Any, Any, object]


class CutShortError(Exception):
    """The work was cut short; `by` is the name of the wait that returned."""

    def __init__(self, by: str) -> None:
        super().__init__(by)
        self.by = by


async def unless(waits: Mapping[str, Wait], work: Coroutine[Any, Any, Found]) -> Found:
    """What the work gives; raises CutShortError where one of the waits returns before it has ended."""
    working = asyncio.create_task(work)
    waiting = {asyncio.create_task(wait): name for name, wait in waits.items()}
    try:
        done, _ = await asyncio.wait({working, *waiting}, return_when=asyncio.FIRST_COMPLETED)
        if working in done:
            return working.result()
        raise CutShortError(next(waiting[task] for task in done))
    finally:
        await end(working, *waiting)
