"""What tests of a diagnosis may use of this machine, and why one ended that the machine is not to blame for.

On one machine the engine gives GPUs by their ids and the agent may use all of the memory, so nothing stands in the way
of a test. Where the agent is a container among others it has less, and others may come at any time.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol


class Grounds(Protocol):
    """What tests may use."""

    def shortage(self, gpu_count: int) -> str:
        """Why there is no room for PyTorch with so many GPUs; empty where there is."""
        ...

    def refusal(self, gpus: Collection[str]) -> str:
        """Why these GPUs cannot be used now; empty where they can."""
        ...

    async def changed(self) -> None:
        """Return when what can be used may be otherwise than before."""
        ...

    def kills(self) -> int:
        """How many processes were ended so far because the agent's own memory was used up."""
        ...


class WholeMachine:
    """Nothing stands in the way."""

    def shortage(self, gpu_count: int) -> str:  # noqa: ARG002
        return ""

    def refusal(self, gpus: Collection[str]) -> str:  # noqa: ARG002
        return ""

    async def changed(self) -> None:
        await asyncio.Event().wait()

    def kills(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Means:
    """How tests are run: the interpreter, and the address of this machine at which others reach them."""

    address: Callable[[], str]
    python: str = sys.executable
    grounds: Grounds = field(default_factory=WholeMachine)
