"""Running tasks side by side, and ending them for certain.

A cancelled task may not end: `asyncio.wait_for` of Python 3.11, through which every request to NATS goes, drops a
cancellation that comes in the same turn as the answer, and a loop then works on as if nobody had asked it to end.
(`asyncio.TaskGroup` cancels its tasks once and would wait for ever.) So `end` cancels again until all have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

REPEAT_S: Final = 0.5


async def run_together(*works: Coroutine[Any, Any, None]) -> None:
    """Run all of them until they return; where one fails the others are ended, and its error is raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        await end(*tasks)


async def run_until(stopping: asyncio.Event, *works: Coroutine[Any, Any, None]) -> None:
    """Run all of them until the event is set or one of them returns; then the others are ended; errors are raised."""
    asked = asyncio.create_task(stopping.wait())
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait([asked, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await end(asked, *tasks)


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks until they have ended; what they raise is not looked at."""
    interrupted = False
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        try:
            await asyncio.wait(pending, timeout=REPEAT_S)
        except asyncio.CancelledError:
            # Whoever waits for us is in a hurry, too; but nothing of ours may be left running.
            interrupted = True
    if interrupted:
        raise asyncio.CancelledError
