"""Control groups as kubelets and runtimes lay them, what is read there, and what is told of processes out of sight."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from services.agent.domain.resources import Burden
from services.agent.kubernetes.allocations import CHECKPOINT
from services.agent.kubernetes.cgroups import Cgroups
from services.agent.kubernetes.evidence import PodProcesses, in_words
from services.agent.kubernetes.pods import Pod
from services.agent.kubernetes.replica_home import Node, ReplicaHome
from services.agent.kubernetes.usage import PodUsage
from shared.agent_evidence import GpuActivity
from shared.logs_wire import ReplicaRef
from shared.resource_samples import GpuSample

UID = "0f1e-22-33"
REPLICA = ReplicaRef("tj-a", 1, "worker", 0)
POD = Pod(UID, "jobs", "p", REPLICA, "2026-01-01T00:00:00+00:00", container="abc")


def write(group: Path, **files: str) -> Path:
    group.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (group / name.replace("__", ".")).write_text(text)
    return group


def unified(root: Path, place: str, procs: str = "7\n8\n") -> Path:
    write(root, cgroup__controllers="cpu memory")
    memory = {"memory__current": "1000\n", "memory__stat": "anon 1\ninactive_file 300\n"}
    return write(root / place, cpu__stat="usage_usec 2500000\nuser_usec 1\n", cgroup__procs=procs, **memory)


@pytest.mark.parametrize(
    "place",
    [
        "kubepods.slice/kubepods-pod0f1e_22_33.slice/cri-containerd-abc.scope",
        "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0f1e_22_33.slice/crio-abc.scope",
        "kubepods/burstable/pod0f1e-22-33/abc",
        "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod0f1e_22_33.slice/cri-containerd-abc.scope",
    ],
)
def test_a_container_is_found_whichever_driver_made_its_group(tmp_path: Path, place: str):
    unified(tmp_path, "kubepods.slice/kubepods-podother.slice/cri-containerd-abc.scope")
    unified(tmp_path, place)
    assert Cgroups(tmp_path).burden(UID, "abc") == Burden(2.5, 700, 2)


def test_version_1_has_a_tree_for_each_thing(tmp_path: Path):
    place = "kubepods/pod0f1e-22-33/abc"
    write(tmp_path / "cpu,cpuacct" / place, cpuacct__usage="1500000000\n", cgroup__procs="7\n")
    memory = {"memory__usage_in_bytes": "1000\n", "memory__stat": "total_inactive_file 100\n"}
    write(tmp_path / "memory" / place, **memory)
    assert Cgroups(tmp_path).burden(UID, "abc") == Burden(1.5, 900, 1)


def test_processes_in_groups_of_the_containers_own_count_too(tmp_path: Path):
    write(unified(tmp_path, "kubepods/pod0f1e-22-33/abc") / "worker", cgroup__procs="9\n")
    assert Cgroups(tmp_path).pids(UID, "abc") == (7, 8, 9)


def test_a_container_that_is_gone_has_no_burden(tmp_path: Path):
    cgroups, group = Cgroups(tmp_path), unified(tmp_path, "kubepods/pod0f1e-22-33/abc")
    assert cgroups.burden(UID, "abc") is not None
    for file in group.iterdir():
        file.unlink()
    assert cgroups.burden(UID, "abc") is None
    group.rmdir()
    assert cgroups.burden(UID, "abc") is None
    assert cgroups.pids(UID, "abc") == ()
    assert cgroups.burden(UID, "") is None


@pytest.fixture
def home(tmp_path: Path) -> ReplicaHome:
    return ReplicaHome(Node("main", "n", tmp_path / "logs", tmp_path / "kubelet", tmp_path / "gangs"), POD, 0.0)


def test_processes_that_can_be_seen_are_looked_at_themselves(tmp_path: Path, home: ReplicaHome):
    unified(tmp_path / "cgroup", "kubepods/pod0f1e-22-33/abc", f"{os.getpid()}\n")
    found = PodProcesses(Cgroups(tmp_path / "cgroup"))({REPLICA: home.path})
    assert found[REPLICA].pids == [os.getpid()]


def test_of_processes_out_of_sight_the_group_tells_what_it_counts(tmp_path: Path, home: ReplicaHome):
    unified(tmp_path / "cgroup", "kubepods/pod0f1e-22-33/abc", "0\n0\n")
    found = PodProcesses(Cgroups(tmp_path / "cgroup"))({REPLICA: home.path})
    assert found[REPLICA].pids == []
    assert found[REPLICA].problem.startswith("its 2 processes sleep and hold 0.0 GiB; their stacks cannot be had")


def test_a_replica_that_spins_is_told_from_one_that_sleeps():
    assert "its 3 processes use 2.00 CPUs and hold 1.0 GiB" in in_words(Burden(1, 0), Burden(2, 1 << 30, 3), 0.5)
    assert "does not run" in in_words(Burden(1, 0), None, 0.5)


def test_gpus_are_those_that_the_kubelet_gave_to_the_pod(tmp_path: Path, home: ReplicaHome):
    unified(tmp_path / "cgroup", "kubepods/pod0f1e-22-33/abc")
    given = [
        {"PodUID": UID, "ContainerName": "replica", "DeviceIDs": {"-1": ["GPU-1"], "0": ["GPU-2::3"]}},
        {"PodUID": "other", "ContainerName": "replica", "DeviceIDs": ["GPU-3"]},
    ]
    checkpoint = tmp_path / "kubelet" / CHECKPOINT
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_text(json.dumps({"Data": {"PodDeviceEntries": given}, "Checksum": 1}))
    activity = tuple(GpuActivity(f"GPU-{number}", "H200", 10 * number, None, 5) for number in (1, 2, 3))
    usage = PodUsage(Cgroups(tmp_path / "cgroup"), tmp_path / "kubelet", lambda: (activity, ()))
    look = usage.look({REPLICA: home.path}, at_s=1.0, at_ms=1000)
    assert look.gpus == {REPLICA: (GpuSample("GPU-1", 10, 5), GpuSample("GPU-2", 20, 5))}
    assert look.burdens == {REPLICA: [Burden(2.5, 700, 2)]}
