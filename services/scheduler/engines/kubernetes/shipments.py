"""Asks the agents of nodes whether they have shipped all of a gang's logs.

An agent that does not answer may be away with its node: whoever asks has to stop waiting at some time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from shared.agent_wire import decode_shipped, encode_shipped_request, shipped_subject
from shared.bus import Bus, BusUnavailableError
from shared.ids import GangId
from shared.kubernetes.names import machine_name

ANSWER_S: Final = 5.0


class AgentShipments:
    """The agents of one cluster's nodes."""

    def __init__(self, bus: Bus, cluster: str) -> None:
        self._bus = bus
        self._cluster = cluster

    async def is_shipped(self, gang: GangId, nodes: Iterable[str]) -> bool:
        """Whether every one of these nodes' agents says so."""
        return all(await asyncio.gather(*(self._ask(gang, node) for node in nodes)))

    async def _ask(self, gang: GangId, node: str) -> bool:
        subject = shipped_subject(machine_name(self._cluster, node))
        try:
            answer = await self._bus.ask(subject, encode_shipped_request(gang), within_s=ANSWER_S)
        except BusUnavailableError:
            return False
        return decode_shipped(answer).is_all
