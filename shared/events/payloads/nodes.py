"""What is known of nodes: what each offers."""

from __future__ import annotations

from pydantic import Field

from shared.events.payloads.base import Payload


class NodeReported(Payload):
    """What a node offers."""

    TYPE = "trainmaster.node.reported.v1"
    SUFFIX = "reported"
    KIND = "node"
    AUTHOR = "scheduler"

    cluster: str
    node: str
    cpu_millis: int
    memory_bytes: int
    gpu_model: str | None = None
    devices: tuple[str, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)
