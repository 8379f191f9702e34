"""What tests of a diagnosis may use of a machine, as a test wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection


class Taken:
    """Grounds on which others come for a GPU, or the agent's memory runs out."""

    def __init__(self) -> None:
        self.why = ""
        self.short = ""
        self.killed = 0
        self.news = asyncio.Event()

    def shortage(self, gpu_count: int) -> str:
        return self.short

    def refusal(self, gpus: Collection[str]) -> str:
        return self.why if gpus else ""

    async def changed(self) -> None:
        await self.news.wait()
        self.news.clear()

    def kills(self) -> int:
        return self.killed
