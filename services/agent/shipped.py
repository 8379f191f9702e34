"""Answers `tm.agent.<machine>.shipped`: whether all of a gang on this machine is kept, so that it may be removed.

A replica is shipped when `shipped.json` stands in its directory, or the directory is gone, which happens to shipped
ones only. Before every replica of this machine is known nothing can be said of a gang.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from services.agent.replica import SHIPPED_FILE
from shared.agent_wire import Shipped, decode_shipped_request, encode_shipped


class ShippedVerb:
    """Looks at directories; `unknown` says why some may be missing, and is empty where none are."""

    def __init__(self, gangs: Path, unknown: Callable[[], str] = lambda: "") -> None:
        self._gangs = gangs
        self._unknown = unknown

    async def answer(self, request: bytes) -> bytes:
        """The answer to a request; raises MalformedAnswerError where it is none."""
        gang = decode_shipped_request(request)
        return encode_shipped(await asyncio.to_thread(self._look, gang))

    def _look(self, gang: str) -> Shipped:
        unknown = self._unknown()
        if unknown:
            return Shipped(gang, (unknown,))
        replicas = (self._gangs / Path(gang).name / "replicas").glob("*")
        return Shipped(gang, tuple(sorted(each.name for each in replicas if not (each / SHIPPED_FILE).exists())))
