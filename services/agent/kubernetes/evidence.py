"""The processes of pods, for evidence of hangs: themselves where the agent may see them, else what their groups tell.

An agent that shares the node's process namespace (`hostPID`) sees every process of a pod, and looks at them as on one
machine. Without it control groups still count: how many processes there are, how much CPU they use right now and how
much memory they hold, which tells a replica that spins from one that sleeps.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from services.agent.domain.resources import Burden
from services.agent.kubernetes.cgroups import Cgroups
from services.agent.kubernetes.pods import Pod
from services.agent.kubernetes.replica_home import read_pod
from services.agent.stacks import Found
from shared.logs_wire import ReplicaRef
from shared.units import GIB

SPAN_S: Final = 0.5
_NOT_HERE: Final = "its container does not run, or the agent cannot find its control group"


class PodProcesses:
    """Finds the processes of replicas, whose directories are given; takes `SPAN_S` where they are out of sight."""

    def __init__(self, cgroups: Cgroups) -> None:
        self._cgroups = cgroups

    def __call__(self, replicas: Mapping[ReplicaRef, Path]) -> dict[ReplicaRef, Found]:
        pods = {replica: read_pod(path) for replica, path in replicas.items()}
        pids = {replica: self._cgroups.pids(pod.uid, pod.container) if pod else () for replica, pod in pods.items()}
        hidden = {replica: pod for replica, pod in pods.items() if pod is not None and 0 in pids[replica]}
        told = self._told(hidden) if hidden else {}
        return {
            replica: Found([pid for pid in pids[replica] if pid], told.get(replica, _NOT_HERE)) for replica in replicas
        }

    def _told(self, pods: Mapping[ReplicaRef, Pod]) -> dict[ReplicaRef, str]:
        before, began = self._burdens(pods), time.monotonic()
        time.sleep(SPAN_S)
        after, span_s = self._burdens(pods), time.monotonic() - began
        return {replica: in_words(before[replica], after[replica], span_s) for replica in pods}

    def _burdens(self, pods: Mapping[ReplicaRef, Pod]) -> dict[ReplicaRef, Burden | None]:
        return {replica: self._cgroups.burden(pod.uid, pod.container) for replica, pod in pods.items()}


def in_words(before: Burden | None, after: Burden | None, span_s: float) -> str:
    """What is told of processes that cannot be looked at."""
    if before is None or after is None:
        return _NOT_HERE
    cores = max(0.0, after.cpu_s - before.cpu_s) / span_s
    doing = f"use {cores:.2f} CPUs" if cores >= 0.01 else "sleep"
    return (
        f"its {after.processes} processes {doing} and hold {after.memory_bytes / GIB:.1f} GiB; "
        "their stacks cannot be had, as the agent may not see processes of pods (hostPID)"
    )
