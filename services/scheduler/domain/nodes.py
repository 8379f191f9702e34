"""Nodes and what one replica asks of them: integers only, so that sums are exact and nothing drifts.

CPU is counted in millicores, memory in bytes, GPUs as devices with ids. A node also takes so many replicas and no more,
whatever their size: each needs one of its `slots`. A `Room` is what is free on one node at one moment; it is a value,
so a planner can take replicas out of it without touching anybody else's copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

SLOTS_MAX: Final = 1 << 20
"""The slots of a node whose engine sets no limit."""


class NodeState(StrEnum):
    """Only a Ready node gets new gangs; what runs on the others goes on."""

    READY = "Ready"
    DRAINING = "Draining"
    QUARANTINED = "Quarantined"
    LOST = "Lost"


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU of a node; ids are unique within the node."""

    id: str
    model: str


@dataclass(frozen=True, slots=True)
class Node:
    """One machine, or the share of a machine that an engine offers as one; a suspect is used where no other will do.

    What others than this platform hold of it (`others_…`) is not in the amounts, and comes on top for its whole size.
    `because` is why the engine does not offer it as Ready.
    """

    id: str
    name: str
    cluster: str
    cpu_m: int
    memory_bytes: int
    devices: tuple[Device, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    state: NodeState = NodeState.READY
    suspect: bool = False
    others_cpu_m: int = 0
    others_memory_bytes: int = 0
    others_devices: tuple[Device, ...] = ()
    because: str = ""
    slots: int = SLOTS_MAX
    others_slots: int = 0

    def whole(self) -> Node:
        """The node as if others held nothing of it."""
        return replace(
            self,
            cpu_m=self.cpu_m + self.others_cpu_m,
            memory_bytes=self.memory_bytes + self.others_memory_bytes,
            devices=(*self.devices, *self.others_devices),
            others_cpu_m=0,
            others_memory_bytes=0,
            others_devices=(),
            slots=self.slots + self.others_slots,
            others_slots=0,
        )

    def is_named(self, names: frozenset[str]) -> bool:
        """Whether one of the names, which may also be ids, means this node."""
        return self.id in names or self.name in names


@dataclass(frozen=True, slots=True)
class Request:
    """What one replica needs; no model means that any GPU will do."""

    cpu_m: int
    memory_bytes: int
    gpus: int = 0
    gpu_model: str = ""


@dataclass(frozen=True, slots=True)
class Room:
    """What is free on one node."""

    node: Node
    cpu_m: int
    memory_bytes: int
    devices: tuple[Device, ...]
    slots: int

    def fitting_devices(self, request: Request) -> tuple[Device, ...]:
        """Free devices that the request may use, in the node's order."""
        if not request.gpu_model:
            return self.devices
        return tuple(device for device in self.devices if device.model == request.gpu_model)

    def holds(self, request: Request) -> int:
        """How many replicas with this request fit beside each other."""
        counts = [self.cpu_m // request.cpu_m, self.memory_bytes // request.memory_bytes, self.slots]
        if request.gpus:
            counts.append(len(self.fitting_devices(request)) // request.gpus)
        return max(min(counts), 0)

    def take(self, request: Request) -> tuple[Room, tuple[str, ...]]:
        """The room after one replica moved in, and the ids of the devices that it got."""
        taken = tuple(device.id for device in self.fitting_devices(request)[: request.gpus])
        return self.without(request, taken), taken

    def without(self, request: Request, device_ids: tuple[str, ...]) -> Room:
        """The room once a replica with this request holds these devices."""
        return replace(
            self,
            cpu_m=self.cpu_m - request.cpu_m,
            memory_bytes=self.memory_bytes - request.memory_bytes,
            devices=tuple(device for device in self.devices if device.id not in device_ids),
            slots=self.slots - 1,
        )


def empty_room(node: Node) -> Room:
    """The room of a node on which nothing runs."""
    return Room(node, node.cpu_m, node.memory_bytes, node.devices, node.slots)
