"""What a node's document says: what it offers, what it is called, and whether it takes new pods.

Others' pods are read for one thing only: what they hold on which node.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import add, sub
from typing import Final

from services.scheduler.domain.nodes import SLOTS_MAX, Device, NodeState
from services.scheduler.engines.kubernetes.objects.settings import GPU_RESOURCE, Toleration
from services.scheduler.engines.kubernetes.quantities import millis, whole
from services.scheduler.ports.engine import NodeOffer
from shared.clock import parse_rfc3339
from shared.kubernetes.documents import Json
from shared.kubernetes.names import machine_name, node_id
from shared.node_labels import LEAF_LABEL, MACHINE_LABEL, SPINE_LABEL

_ENDED: Final = ("Succeeded", "Failed")
# Set and taken by controllers after the condition Ready, which is read itself.
_TOLD_BY_READY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_REPELLING: Final = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class NodeReading:
    """How nodes of this cluster are to be read: resources that are GPUs, labels that have a meaning, taints we bear."""

    gpu_resources: tuple[str, ...] = (GPU_RESOURCE,)
    gpu_model_label: str = "nvidia.com/gpu.product"
    leaf_label: str = ""
    spine_label: str = ""
    tolerations: tuple[Toleration, ...] = ()

    def bears(self, taint: Json) -> bool:
        """Whether our pods may go to a node with this taint."""
        return any(_bears(toleration, taint) for toleration in self.tolerations)


@dataclass(frozen=True, slots=True)
class Amounts:
    """What is offered or held of one node."""

    cpu_m: int = 0
    memory_bytes: int = 0
    gpus: int = 0
    pods: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        """Both together."""
        return self._with(other, add)

    def __sub__(self, other: Amounts) -> Amounts:
        """This without the other."""
        return self._with(other, sub)

    def fits(self, left: Amounts) -> bool:
        """Whether there is enough of each."""
        return self.most(left) == left

    def most(self, other: Amounts) -> Amounts:
        """The larger of each."""
        return self._with(other, max)

    def _with(self, other: Amounts, both: Callable[[int, int], int]) -> Amounts:
        return Amounts(
            both(self.cpu_m, other.cpu_m),
            both(self.memory_bytes, other.memory_bytes),
            both(self.gpus, other.gpus),
            both(self.pods, other.pods),
        )


_ONE_POD: Final = Amounts(pods=1)


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node; `not_ready_since` is None while it is ready, and `closed_because` empty while it takes new pods."""

    name: str
    offered: Amounts
    gpu_model: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    not_ready_since: datetime | None = None
    not_ready_because: str = ""
    closed_because: str = ""


@dataclass(frozen=True, slots=True)
class OtherPod:
    """A pod that is not ours."""

    uid: str
    node: str
    held: Amounts


def node_seen(node: Json, reading: NodeReading, cluster: str) -> NodeSeen:
    """What matters of a node."""
    metadata, status = node["metadata"], node.get("status") or {}
    marks = metadata.get("labels") or {}
    ready = _condition(status, "Ready")
    is_ready = ready.get("status") == "True"
    since = ready.get("lastTransitionTime") or metadata["creationTimestamp"]
    return NodeSeen(
        name=sys.intern(metadata["name"]),
        offered=_offered(status.get("allocatable") or {}, reading),
        gpu_model=marks.get(reading.gpu_model_label, ""),
        facts=_facts(marks, status, machine_name(cluster, metadata["name"]), reading),
        not_ready_since=None if is_ready else parse_rfc3339(since),
        not_ready_because="" if is_ready else _why(ready),
        closed_because=_closed(node.get("spec") or {}, reading),
    )


def other_pod(pod: Json, reading: NodeReading) -> OtherPod:
    """What a pod holds; nothing where it has no node, or has ended."""
    spec = pod["spec"]
    holds = bool(spec.get("nodeName")) and (pod.get("status") or {}).get("phase") not in _ENDED
    held = _requests(spec, reading) + _ONE_POD if holds else Amounts()
    return OtherPod(pod["metadata"]["uid"], sys.intern(spec.get("nodeName") or ""), held)


def node_offer(node: NodeSeen, held: Amounts, cluster: str) -> NodeOffer:
    """The node as the scheduler is offered it, with what pods of others hold of it."""
    devices = tuple(Device(f"gpu-{number}", node.gpu_model) for number in range(node.offered.gpus))
    free = max(node.offered.gpus - held.gpus, 0)
    state = NodeState.LOST if node.not_ready_since else NodeState.DRAINING if node.closed_because else NodeState.READY
    return NodeOffer(
        id=node_id(cluster, node.name),
        name=node.name,
        cpu_m=max(node.offered.cpu_m - held.cpu_m, 0),
        memory_bytes=max(node.offered.memory_bytes - held.memory_bytes, 0),
        devices=devices[:free],
        facts=node.facts,
        others_cpu_m=min(held.cpu_m, node.offered.cpu_m),
        others_memory_bytes=min(held.memory_bytes, node.offered.memory_bytes),
        others_devices=devices[free:],
        state=state,
        because=node.not_ready_because or node.closed_because,
        slots=max(node.offered.pods - held.pods, 0),
        others_slots=min(held.pods, node.offered.pods),
    )


def _condition(status: Json, kind: str) -> Json:
    conditions: list[Json] = status.get("conditions") or []
    return next((condition for condition in conditions if condition.get("type") == kind), {})


def _why(ready: Json) -> str:
    said = ready.get("message") or ready.get("reason") or "its kubelet has not reported yet"
    return f"Kubernetes says that it is not ready: {said}"


def _bears(toleration: Toleration, taint: Json) -> bool:
    """As Kubernetes has it: without a value or an effect, whatever these are."""
    same_value = not toleration.value or toleration.value == taint.get("value", "")
    return toleration.key == taint["key"] and same_value and toleration.effect in ("", taint["effect"])


def _closed(spec: Json, reading: NodeReading) -> str:
    """Who binds pods by himself has to heed what keeps Kubernetes from it."""
    if spec.get("unschedulable"):
        return "it is cordoned in Kubernetes"
    for taint in spec.get("taints") or ():
        if taint.get("effect") in _REPELLING and taint["key"] not in _TOLD_BY_READY and not reading.bears(taint):
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"its taint {taint['key']}{value}:{taint['effect']} keeps pods away"
    return ""


def _offered(allocatable: Json, reading: NodeReading) -> Amounts:
    """A kubelet always says how many pods it takes; a node that says nothing sets no limit."""
    pods = whole(allocatable["pods"]) if "pods" in allocatable else SLOTS_MAX
    return replace(_amounts(allocatable, reading), pods=pods)


def _amounts(listed: Json, reading: NodeReading) -> Amounts:
    gpus = sum(whole(listed.get(name) or 0) for name in reading.gpu_resources)
    return Amounts(millis(listed.get("cpu") or 0), whole(listed.get("memory") or 0), gpus)


def _requests(spec: Json, reading: NodeReading) -> Amounts:
    """As Kubernetes counts: containers run together, init containers before them; and what the pod itself costs.

    An init container that is restarted always runs on beside the others.
    """
    together, alone = Amounts(), Amounts()
    for container in spec.get("initContainers") or ():
        asked = _asked(container, reading)
        if container.get("restartPolicy") == "Always":
            together += asked
        else:
            alone = alone.most(together + asked)
    for container in spec.get("containers") or ():
        together += _asked(container, reading)
    return together.most(alone) + _amounts(spec.get("overhead") or {}, reading)


def _asked(container: Json, reading: NodeReading) -> Amounts:
    resources = container.get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})}, reading)


def _facts(marks: Mapping[str, str], status: Json, machine: str, reading: NodeReading) -> Mapping[str, str]:
    """Labels of the node, by which pools choose, and the few that every engine tells under the same names."""
    info = status.get("nodeInfo") or {}
    told = {
        MACHINE_LABEL: machine,
        LEAF_LABEL: marks.get(reading.leaf_label, "") if reading.leaf_label else "",
        SPINE_LABEL: marks.get(reading.spine_label, "") if reading.spine_label else "",
        "kernel": info.get("kernelVersion", ""),
        "architecture": info.get("architecture", ""),
        "kubelet": info.get("kubeletVersion", ""),
    }
    return {**marks, **{name: value for name, value in told.items() if value}}
