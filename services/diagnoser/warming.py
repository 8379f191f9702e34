"""Begins the tests of nodes while their facts are looked at: importing PyTorch takes longer than the look.

Nodes with GPUs are not begun: who uses a GPU is one of the facts, and the tests themselves must not be among them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from services.diagnoser.asking import Asking
from shared.diagnosis_wire import TestAnswer
from shared.tasks import end


class Warming:
    """What is being begun; what goes wrong with it shows when the tests begin for certain."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._tasks: dict[str, asyncio.Task[TestAnswer]] = {}

    @property
    def nodes(self) -> frozenset[str]:
        """Nodes that were begun."""
        return frozenset(self._tasks)

    def begin(self, nodes: Iterable[str]) -> None:
        """Begin these nodes, in the background."""
        self._tasks |= {node: asyncio.create_task(self._asking.begin(node)) for node in nodes}

    async def ready(self, nodes: Iterable[str]) -> None:
        """Return once these nodes have begun, or have not been able to."""
        wanted = [self._tasks[node] for node in nodes if node in self._tasks]
        await asyncio.gather(*wanted, return_exceptions=True)

    async def close(self) -> None:
        """Wait for no more of it."""
        await end(*self._tasks.values())
        await self.ready(self._tasks)
