"""What the API offers about nodes, beside their documents: orders of admins, and what happened to a node."""

from __future__ import annotations

from urllib.parse import quote

from trainmaster.decoding import Document, Fields
from trainmaster.documents import JobEvent
from trainmaster.transport import Transport


class NodeCalls:
    """The part of a `Client` that is about nodes; a node is given by its name or its id."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def order(self, node: str, verb: str, reason: str) -> Document:
        """Have a node drained or quarantined (`drain`, `quarantine`); for admins."""
        return self._transport.document("POST", f"{_path(node)}/{verb}", json={"reason": reason})

    def restore(self, node: str, reason: str, *, force: bool = False) -> Document:
        """Have a node used again; one that was found bad is tested first, unless that is forced; for admins."""
        return self._transport.document("POST", f"{_path(node)}/restore", json={"reason": reason, "force": force})

    def history(self, node: str) -> tuple[JobEvent, ...]:
        """What happened to a node, who ordered what and why; for admins."""
        answer = Fields.of(self._transport.document("GET", f"{_path(node)}/events"))
        return tuple(JobEvent.of(dict(item.document)) for item in answer.each("items"))


def _path(node: str) -> str:
    return f"/v1/nodes/{quote(node, safe='')}"
