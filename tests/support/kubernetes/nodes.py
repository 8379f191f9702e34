"""Nodes of a simulated cluster: what they have, how they are registered, lost and taken away."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from tests.support.kubernetes.connection import Connection
from tests.support.kubernetes.quotas import quantity
from tests.support.kubernetes.registry import timestamp
from tests.support.kubernetes.resources import Json

GPU: Final = "nvidia.com/gpu"
MOST_PODS: Final = 250
EFFECTS: Final = ("NoSchedule", "NoExecute")
UNREACHABLE: Final = "node.kubernetes.io/unreachable"


@dataclass(frozen=True)
class NodeSpec:
    """One node."""

    name: str
    cpu: str = "64"
    memory: str = "256Gi"
    gpus: int = 0
    pods: int = MOST_PODS
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Json, ...] = ()
    address: str = "127.0.0.1"

    @property
    def capacity(self) -> dict[str, str]:
        gpus = {GPU: str(self.gpus)} if self.gpus else {}
        return {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods), **gpus}

    def document(self) -> Json:
        """As a kubelet registers it."""
        labels = {"kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        spec = {"taints": list(self.taints)} if self.taints else {}
        status = {
            "capacity": self.capacity,
            "allocatable": self.capacity,
            "conditions": [ready_condition("True", "KubeletReady")],
            "addresses": [
                {"type": "InternalIP", "address": self.address},
                {"type": "Hostname", "address": self.name},
            ],
        }
        return {"metadata": {"name": self.name, "labels": {**labels, **self.labels}}, "spec": spec, "status": status}


def ready_condition(status: str, reason: str) -> Json:
    now = timestamp(datetime.now(UTC))
    return {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }


async def register(api: Connection, node: NodeSpec) -> None:
    """Make the node, or where it is there already say again what it has.

    A new node is tainted as not ready; where no node controller takes that away it is done here.
    """
    document = node.document()
    path = f"/api/v1/nodes/{node.name}"
    answer = await api.post("/api/v1/nodes", document)
    if answer.status == 409:
        answer = await api.patch(f"{path}/status", {"status": document["status"]})
    if answer.status not in {200, 201}:
        raise RuntimeError(f"node {node.name} could not be registered: {answer.message}")
    labels = {"labels": document["metadata"]["labels"]}
    await api.patch(path, {"metadata": labels, "spec": {"taints": list(node.taints)}})


async def mark_lost(api: Connection, name: str) -> None:
    """What the node controller writes when a kubelet has been silent for too long."""
    node = (await api.get(f"/api/v1/nodes/{name}")).body
    others = [each for each in node["status"]["conditions"] if each["type"] != "Ready"]
    unknown = ready_condition("Unknown", "NodeStatusUnknown")
    await api.patch(f"/api/v1/nodes/{name}/status", {"status": {"conditions": [*others, unknown]}})
    taints = [*node["spec"].get("taints", []), *({"key": UNREACHABLE, "effect": each} for each in EFFECTS)]
    await api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": taints}})


def lacking(node: NodeSpec, pod: Json, others: list[Json]) -> tuple[str, str] | None:
    """What a pod needs and its node has no longer: the reason and sentence of the kubelet's refusal."""
    for name, capacity in node.capacity.items():
        wanted, used = _requested(pod, name), sum((_requested(each, name) for each in others), quantity(0))
        if used + wanted > quantity(capacity):
            told = ", ".join(
                f"{word}: {_told(name, amount)}"
                for word, amount in (("requested", wanted), ("used", used), ("capacity", quantity(capacity)))
            )
            return f"OutOf{name}", f"Pod was rejected: Node didn't have enough resource: {name}, {told}"
    return None


def _requested(pod: Json, name: str) -> Decimal:
    if name == "pods":
        return quantity(1)
    containers = pod["spec"]["containers"]
    requests = [(each.get("resources") or {}).get("requests") or {} for each in containers]
    return sum((quantity(each.get(name, 0)) for each in requests), quantity(0))


def _told(name: str, amount: Decimal) -> str:
    """CPUs are counted in thousandths."""
    return str(int(amount * 1000) if name == "cpu" else int(amount))
