"""Running a service inside a test, as the launcher would, and waiting for what it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from shared.bus import Bus
from shared.service import Service

Found = TypeVar("Found")
LIMIT_S: Final = 45.0
"""How long a test waits for what must come: long, as nothing is won by failing sooner on a busy machine."""


@asynccontextmanager
async def running(service: Service) -> AsyncIterator[Service]:
    """The service works inside the block and has ended after it."""
    task = asyncio.create_task(service.run())
    try:
        yield service
    finally:
        await service.stop()
        await asyncio.wait_for(task, LIMIT_S)


async def eventually(look: Callable[[], Awaitable[Found | None]], limit_s: float = LIMIT_S) -> Found:
    """What `look` finds, as soon as it finds something."""
    async with asyncio.timeout(limit_s):
        while (found := await look()) is None:
            await asyncio.sleep(0.02)
    return found


async def until_connected(bus: Bus, *, wanted: bool = True) -> None:
    """Return when the connection to NATS is there, or gone."""

    async def look() -> bool | None:
        return True if bus.client.is_connected is wanted else None

    await eventually(look)
