"""A node of Kubernetes: pods are watched, their output is copied into directories as the local engine lays them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from services.agent.courier import Times
from services.agent.domain.resources import Look
from services.agent.gangs import Gangs
from services.agent.grounds import Grounds
from services.agent.inotify import Inotify
from services.agent.kubernetes.allocations import read_allocations
from services.agent.kubernetes.cgroups import Cgroups
from services.agent.kubernetes.directories import NodeDirectories
from services.agent.kubernetes.evidence import PodProcesses
from services.agent.kubernetes.freeing import Freeing
from services.agent.kubernetes.gpu_pods import GpuPods
from services.agent.kubernetes.keeper import PodKeeper
from services.agent.kubernetes.own_memory import OwnMemory
from services.agent.kubernetes.pod_lane import PodLane
from services.agent.kubernetes.replica_home import Node
from services.agent.kubernetes.usage import PodUsage
from services.agent.prober import PlacesLook
from services.agent.settings import KubernetesSettings
from services.agent.stacks import Finder
from shared.agent_wire import Measurement
from shared.clock import SystemClock
from shared.kubernetes.access import connect
from shared.logs_wire import ReplicaRef


class PodGrounds:
    """See `services.agent.grounds.Grounds`: the GPUs that no pod has, and the agent's own memory."""

    def __init__(self, gpu_pods: GpuPods, memory: OwnMemory) -> None:
        self._gpu_pods = gpu_pods
        self._memory = memory

    def shortage(self, gpu_count: int) -> str:
        return self._memory.shortage(gpu_count)

    def refusal(self, gpus: Collection[str]) -> str:
        return self._gpu_pods.refusal(gpus)

    async def changed(self) -> None:
        await self._gpu_pods.changed()

    def kills(self) -> int:
        return self._memory.kills()


class KubernetesHost:
    """See `services.agent.host.Host`."""

    def __init__(self, settings: KubernetesSettings, directory: Path, gangs: Gangs, times: Times) -> None:
        self._settings = settings
        self._times = times
        node = Node(settings.cluster, settings.node_name, settings.pod_logs, settings.kubelet_root, directory)
        cgroups = Cgroups(settings.cgroup_root)
        self._keeper = PodKeeper(node)
        self._inotify = Inotify()
        self._usage = PodUsage(cgroups, settings.kubelet_root)
        self._freeing = Freeing(gangs)
        self.find_processes: Finder = PodProcesses(cgroups)
        self.look_at_places: PlacesLook = NodeDirectories(settings.directories).look
        self._gpu_pods = GpuPods(partial(read_allocations, settings.kubelet_root), sees_gpus=settings.sees_gpus)
        self.grounds: Grounds = PodGrounds(self._gpu_pods, OwnMemory())

    def look(self, replicas: Mapping[ReplicaRef, Path]) -> Look:
        return self._usage.look(replicas, at_s=self._times.monotonic_s(), at_ms=self._times.unix_ms())

    def seen(self, measured: Measurement) -> Measurement:
        return self._gpu_pods.seen(measured)

    def unknown(self) -> str:
        return "" if self._keeper.is_current else "the pods of this node are not known yet"

    def works(self, changed: Callable[[], None]) -> Sequence[Coroutine[Any, Any, None]]:
        lane = PodLane(self._keeper, self._inotify, SystemClock(), changed)
        return (self._watch(lane), lane.run(), self._freeing.run())

    def close(self) -> None:
        self._keeper.close()
        self._inotify.close()

    async def _watch(self, lane: PodLane) -> None:
        async with await connect() as api:
            settings, node = self._settings, self._settings.node_name
            pods = lane.watch(api, node, settings.cluster, settings.namespaces)
            await asyncio.gather(pods, self._gpu_pods.watch(api, node, SystemClock()))
