"""Asking node agents what the processes of an attempt do; which agent answers for a node, the node itself reported."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterable
from typing import Final

import structlog
from pydantic import TypeAdapter, ValidationError

from shared.agent_evidence import MachineLook, StacksRequest, encode_request, stacks_subject
from shared.agent_wire import MalformedAnswerError
from shared.bus import Bus, BusError, BusUnavailableError
from shared.bus.streams import NODES
from shared.catalog import Cluster
from shared.events import NodeReported
from shared.node_labels import MACHINE_LABEL
from shared.units import MIB

ANSWER_S: Final = 45.0
_INFLATED_MAX_BYTES: Final = 32 * MIB
_LOOK: Final = TypeAdapter(MachineLook)


class Agents:
    """The agents of all machines, reached over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._log = structlog.get_logger(service="watchdog")

    async def labels_of(self, cluster: str, node: str) -> dict[str, str]:
        """Labels of a node as it reported last; none where nothing is known of it."""
        subject = f"tm.node.{Cluster.id_of(cluster)}.{node}.{NodeReported.SUFFIX}"
        try:
            reported = await self._bus.history.last_event(subject, stream=NODES)
        except BusError as error:
            self._log.warning("node_unknown", node=node, reason=error.message)
            return {}
        return dict(reported.event.data.labels) if reported and isinstance(reported.event.data, NodeReported) else {}

    async def machines_of(self, cluster: str, nodes: Iterable[str]) -> dict[str, str]:
        """The machine of each node; a node that names none is a machine of its own."""
        asked = sorted(set(nodes))
        labels = await asyncio.gather(*(self.labels_of(cluster, node) for node in asked))
        return {node: found.get(MACHINE_LABEL, node) for node, found in zip(asked, labels, strict=True)}

    async def look(self, machine: str, request: StacksRequest) -> MachineLook | str:
        """What the agent of a machine sees of the attempt, or why nothing is known."""
        try:
            return decode_look(await self._bus.ask(stacks_subject(machine), encode_request(request), within_s=ANSWER_S))
        except BusUnavailableError:
            return "its node agent did not answer"
        except MalformedAnswerError as error:
            return error.message


def decode_look(body: bytes) -> MachineLook:
    """The answer in the bytes; raises MalformedAnswerError, also where it is larger than an answer can be."""
    inflater = zlib.decompressobj()
    try:
        text = inflater.decompress(body, _INFLATED_MAX_BYTES)
        if not inflater.eof:
            raise MalformedAnswerError("the answer of its node agent is cut short or too large")
        return _LOOK.validate_json(text)
    except (zlib.error, ValidationError) as error:
        raise MalformedAnswerError("the answer of its node agent cannot be read") from error
