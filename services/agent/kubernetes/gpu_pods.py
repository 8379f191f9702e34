"""Which GPUs of this node a diagnosis may use: those that no pod has, by what the kubelet gives and the driver sees.

The kubelet chooses which devices a pod gets, once the pod is on the node, so neither the scheduler nor anybody else
knows beforehand. What is known: which pods that want GPUs are on the node and have not ended (they are watched, those
of others, too), and which ids the kubelet has given to them. A pod that wants GPUs and has none yet may get any, and
so does one that has them by another way than the kubelet's device plugins (resource claims): then none may be used.

Everything here only ever forbids. A pod that comes while GPUs are tested wakes whoever waits in `changed`, and the
tests are ended while its containers are still being made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from services.agent.kubernetes.allocations import Allocations
from shared.agent_facts import Gpu
from shared.agent_wire import Measurement
from shared.clock import Clock
from shared.kubernetes.access import KubernetesApi
from shared.kubernetes.documents import Json
from shared.kubernetes.watch import ApiCollection, Changed, Gone, Listed, Told, Unreachable, follow
from shared.units import MIB, format_bytes

UNSEEN: Final = "the agent does not see the node's GPUs (agent.gpus.enabled of the chart)"
NO_DRIVER: Final = "the agent's container has no driver of GPUs (agent.gpus.runtimeClassName of the chart)"
# A GPU that nobody uses holds some memory for its driver.
_IDLE_BYTES: Final = 256 * MIB
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_GPUS: Final = "nvidia.com/"


@dataclass(frozen=True, slots=True)
class GpuPod:
    """A pod that has not ended and has, or will have, GPUs."""

    uid: str
    name: str


def gpu_pod_of(given: Json) -> GpuPod | None:
    """The pod of its JSON; None where it wants no GPU, or has ended."""
    metadata: Json = given.get("metadata") or {}
    spec: Json = given.get("spec") or {}
    if (given.get("status") or {}).get("phase") in _ENDED:
        return None
    if not spec.get("resourceClaims") and not any(each.startswith(_GPUS) for each in _wanted(spec)):
        return None
    return GpuPod(str(metadata.get("uid") or ""), f"{metadata.get('namespace')}/{metadata.get('name')}")


def _wanted(spec: Json) -> Iterator[str]:
    """Names of resources that its containers want any of."""
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        limits: Json = (container.get("resources") or {}).get("limits") or {}
        yield from (name for name, amount in limits.items() if str(amount) != "0")


class GpuPods:
    """The pods of the node that have GPUs; `allocations` reads what the kubelet has given."""

    def __init__(self, allocations: Callable[[], Allocations], *, sees_gpus: bool) -> None:
        self._allocations = allocations
        self._sees_gpus = sees_gpus
        self._pods: dict[str, GpuPod] = {}
        self._is_current = False
        self._news = asyncio.Event()

    async def watch(self, api: KubernetesApi, node_name: str, clock: Clock) -> None:
        """Follow the pods of the node, until cancelled; without GPUs in sight there is no need."""
        if not self._sees_gpus:
            return
        collection = ApiCollection(api, "/api/v1/pods", fields=f"spec.nodeName={node_name}")
        async with aclosing(follow(collection, _uid_and_pod, clock)) as news:
            async for each in news:
                self.tell(each)

    def tell(self, news: Told[tuple[str, GpuPod | None]]) -> None:
        """Take news of a pod."""
        match news:
            case Listed(objects):
                self._pods = {uid: pod for uid, pod in objects if pod is not None}
                self._is_current = True
            case Changed((uid, pod)) if pod is not None:
                self._pods[uid] = pod
            case Changed((uid, _)) | Gone((uid, _)):
                self._pods.pop(uid, None)
            case Unreachable():
                self._is_current = False
            case _:
                self._is_current = True
        self._news.set()

    async def changed(self) -> None:
        """Return after there was news."""
        await self._news.wait()
        self._news.clear()

    def refusal(self, gpus: Collection[str]) -> str:
        """Why these cannot be used now; empty where they can."""
        if not gpus:
            return ""
        held = self._held(self._allocations())
        return next((held[gpu] for gpu in sorted(gpus) if gpu in held), held.get("", ""))

    def seen(self, measured: Measurement) -> Measurement:
        """The measurement with which of the GPUs a diagnosis may use."""
        has_driver = bool(measured.gpus or measured.versions or measured.gpus_unknown)
        if not (self._sees_gpus and has_driver):
            unseen = NO_DRIVER if self._sees_gpus else UNSEEN
            return replace(measured, kubelet_gives=True, gpus=(), gpus_unseen=unseen)
        allocations = self._allocations()
        held = self._held(allocations)
        gpus = tuple(replace(gpu, given_to=_given_to(gpu, held), used_by=used_by(gpu)) for gpu in measured.gpus)
        return replace(measured, kubelet_gives=True, gpus=gpus, gpus_are_whole=not allocations.are_shares)

    def _held(self, allocations: Allocations) -> dict[str, str]:
        """Why GPUs cannot be used, by their ids; the empty id stands for all."""
        if not self._is_current:
            return {"": "the pods of the node are not known now"}
        if allocations.are_shares:
            return {"": "GPUs of the node are shared or divided"}
        given = {pod: allocations.gpus(pod.uid) for pod in self._pods.values()}
        unknown = sorted(pod.name for pod, gpus in given.items() if not gpus)
        held = {gpu: f"pod {pod.name} has it" for pod, gpus in given.items() for gpu in gpus}
        return held | ({"": f"pod {unknown[0]} may get any GPU of the node"} if unknown else {})


def _uid_and_pod(given: Json) -> tuple[str, GpuPod | None]:
    return str((given.get("metadata") or {}).get("uid") or ""), gpu_pod_of(given)


def _given_to(gpu: Gpu, held: Mapping[str, str]) -> str:
    return held.get(gpu.id) or held.get("") or ("it is divided (MIG)" if gpu.divided else "")


def used_by(gpu: Gpu) -> str:
    """Who uses it by the driver; of processes in other containers often only their memory can be seen."""
    if gpu.processes:
        return f"processes use it: {gpu.users}"
    if gpu.memory_used_bytes is not None and gpu.memory_used_bytes > _IDLE_BYTES:
        return f"{format_bytes(gpu.memory_used_bytes)} of its memory are used"
    return ""
