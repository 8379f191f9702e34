"""Tells whoever looks from outside, such as a kubelet, that the agent can work: by the time of a file.

The file is renewed while NATS is connected and every pod of the node is known. It says nothing about a while ago, so
whoever looks must find it young.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from services.agent.lanes import survived

BEAT_S: Final = 2.0


async def beat(
    file: Path, is_ready: Callable[[], bool], sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Renew the file whenever the agent is ready, until cancelled."""
    while True:
        if is_ready():
            await survived(asyncio.to_thread(file.touch))
        await sleep(BEAT_S)
