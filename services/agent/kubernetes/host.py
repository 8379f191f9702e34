"""A node of Kubernetes: pods are watched, their output is copied into directories as the local engine lays them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from services.agent.courier import Times
from services.agent.domain.resources import Look
from services.agent.gangs import Gangs
from services.agent.inotify import Inotify
from services.agent.kubernetes.cgroups import Cgroups
from services.agent.kubernetes.evidence import PodProcesses
from services.agent.kubernetes.freeing import Freeing
from services.agent.kubernetes.keeper import PodKeeper
from services.agent.kubernetes.pod_lane import PodLane
from services.agent.kubernetes.replica_home import Node
from services.agent.kubernetes.usage import PodUsage
from services.agent.prober import PlacesLook
from services.agent.settings import KubernetesSettings
from services.agent.stacks import Finder
from shared.clock import SystemClock
from shared.kubernetes.access import connect
from shared.logs_wire import ReplicaRef


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
        self.look_at_places: PlacesLook | None = None

    def look(self, replicas: Mapping[ReplicaRef, Path]) -> Look:
        return self._usage.look(replicas, at_s=self._times.monotonic_s(), at_ms=self._times.unix_ms())

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
            await lane.watch(api, self._settings.node_name)
