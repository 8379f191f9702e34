"""What replicas use, for `trainmaster top`: CPU and memory from control groups, GPUs by what the kubelet gave to pods.

Which devices a pod has, the kubelet keeps in a file of its own (its checkpoint of device plugins). Ids there are those
of the driver, perhaps with `::<number>` behind, where a GPU is shared by time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from services.agent import gpus
from services.agent.domain.resources import Look
from services.agent.kubernetes.cgroups import Cgroups
from services.agent.kubernetes.pods import Pod
from services.agent.kubernetes.replica_home import read_pod
from services.agent.sampler import gpu_sample
from shared.agent_evidence import GpuActivity
from shared.logs_wire import ReplicaRef
from shared.resource_samples import GpuSample

CHECKPOINT: Final = Path("device-plugins/kubelet_internal_checkpoint")
GpuLook = Callable[[], tuple[tuple[GpuActivity, ...], tuple[str, ...]]]


class PodUsage:
    """Looks at the containers of replicas, whose directories are given."""

    def __init__(self, cgroups: Cgroups, kubelet: Path, look_at_gpus: GpuLook = gpus.activity) -> None:
        self._cgroups = cgroups
        self._checkpoint = kubelet / CHECKPOINT
        self._look_at_gpus = look_at_gpus

    def look(self, replicas: Mapping[ReplicaRef, Path], *, at_s: float, at_ms: int) -> Look:
        """What they use now."""
        pods = {replica: pod for replica, path in replicas.items() if (pod := read_pod(path)) is not None}
        found = {replica: self._cgroups.burden(pod.uid, pod.container) for replica, pod in pods.items()}
        burdens = {replica: [burden] for replica, burden in found.items() if burden is not None}
        running = {replica: pods[replica] for replica in burdens}
        return Look(at_s, at_ms, burdens, {replica: its for replica, its in self._gpus(running).items() if its})

    def _gpus(self, pods: Mapping[ReplicaRef, Pod]) -> dict[ReplicaRef, tuple[GpuSample, ...]]:
        devices = devices_of_pods(self._checkpoint) if pods else {}
        given = {replica: devices.get(pod.uid, frozenset()) for replica, pod in pods.items()}
        activity, _ = self._look_at_gpus() if any(given.values()) else ((), ())
        return {
            replica: tuple(gpu_sample(each) for each in activity if each.id in its) for replica, its in given.items()
        }


def devices_of_pods(checkpoint: Path) -> dict[str, frozenset[str]]:
    """Ids of the devices that each pod, by its uid, has; none where the kubelet has no such file."""
    found: dict[str, frozenset[str]] = {}
    try:
        for entry in json.loads(checkpoint.read_bytes())["Data"]["PodDeviceEntries"] or ():
            given = entry["DeviceIDs"]
            ids = [each for numa in given.values() for each in numa] if isinstance(given, dict) else given
            pod = str(entry["PodUID"])
            found[pod] = found.get(pod, frozenset()) | {str(each).partition("::")[0] for each in ids}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return found
    return found
