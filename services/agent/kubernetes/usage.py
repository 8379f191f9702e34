"""What replicas use, for `trainmaster top`: CPU and memory from control groups, GPUs by what the kubelet gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from services.agent import gpus
from services.agent.domain.resources import Look
from services.agent.kubernetes.allocations import Allocations, read_allocations
from services.agent.kubernetes.cgroups import Cgroups
from services.agent.kubernetes.pods import Pod
from services.agent.kubernetes.replica_home import read_pod
from services.agent.sampler import gpu_sample
from shared.agent_evidence import GpuActivity
from shared.logs_wire import ReplicaRef
from shared.resource_samples import GpuSample

GpuLook = Callable[[], tuple[tuple[GpuActivity, ...], tuple[str, ...]]]


class PodUsage:
    """Looks at the containers of replicas, whose directories are given."""

    def __init__(self, cgroups: Cgroups, kubelet: Path, look_at_gpus: GpuLook = gpus.activity) -> None:
        self._cgroups = cgroups
        self._kubelet = kubelet
        self._look_at_gpus = look_at_gpus

    def look(self, replicas: Mapping[ReplicaRef, Path], *, at_s: float, at_ms: int) -> Look:
        """What they use now."""
        pods = {replica: pod for replica, path in replicas.items() if (pod := read_pod(path)) is not None}
        found = {replica: self._cgroups.burden(pod.uid, pod.container) for replica, pod in pods.items()}
        burdens = {replica: [burden] for replica, burden in found.items() if burden is not None}
        running = {replica: pods[replica] for replica in burdens}
        return Look(at_s, at_ms, burdens, {replica: its for replica, its in self._gpus(running).items() if its})

    def _gpus(self, pods: Mapping[ReplicaRef, Pod]) -> dict[ReplicaRef, tuple[GpuSample, ...]]:
        allocations = read_allocations(self._kubelet) if pods else Allocations()
        given = {replica: allocations.devices(pod.uid) for replica, pod in pods.items()}
        activity, _ = self._look_at_gpus() if any(given.values()) else ((), ())
        return {
            replica: tuple(gpu_sample(each) for each in activity if each.id in its) for replica, its in given.items()
        }
