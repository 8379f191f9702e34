"""What is read of a pod, and where its volumes are on the node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from services.agent.kubernetes.pods import Pod, VolumePath, pod_of
from services.agent.kubernetes.volume_paths import Place, find_place
from shared.kubernetes import names
from shared.logs_wire import ReplicaRef

LABELS = {names.JOB_LABEL: "tj-a", names.ATTEMPT_LABEL: "2", names.ROLE_LABEL: "worker", names.INDEX_LABEL: "3"}


def read(
    *,
    name: str = "tj-a-2-worker-3",
    status: dict[str, Any] | None = None,
    event_files: str | None = None,
    checkpoints: str | None = None,
    volumes: dict[str, Any] | None = None,
    mounts: list[dict[str, Any]] | None = None,
) -> Pod:
    given = {names.TENSORBOARD_ANNOTATION: event_files, names.CHECKPOINTS_ANNOTATION: checkpoints}
    annotations = {name: path for name, path in given.items() if path} or None
    metadata = {"uid": "u-1", "namespace": "jobs", "name": name, "labels": LABELS, "annotations": annotations}
    containers = [{"name": "helper"}, {"name": names.REPLICA_CONTAINER, "volumeMounts": mounts}]
    spec = {"containers": containers, "volumes": [{"name": name, **each} for name, each in (volumes or {}).items()]}
    pod = pod_of({"metadata": metadata, "spec": spec, "status": status or {}})
    assert pod is not None
    return pod


def event_files_of(kubelet: Path, pod: Pod) -> Place | None:
    return find_place(kubelet, pod, pod.event_files)


def own(state: dict[str, Any]) -> dict[str, Any]:
    return {"name": names.REPLICA_CONTAINER, "state": state, "containerID": "containerd://abc123"}


def test_a_pod_is_the_replica_of_its_labels():
    pod = read(status={"startTime": "2026-01-02T03:04:05Z"})
    assert (pod.replica, pod.gang) == (ReplicaRef("tj-a", 2, "worker", 3), "tj-a-2")
    assert pod.log_directory == "jobs_tj-a-2-worker-3_u-1"
    assert pod.started_at == "2026-01-02T03:04:05+00:00"
    assert (pod.has_begun, pod.has_ended, pod.failed_init, pod.container) == (False, False, "", "")


def test_a_copy_of_a_pod_is_none():
    metadata = {"uid": "u-2", "namespace": "jobs", "name": "look-inside", "labels": LABELS}
    assert pod_of({"metadata": metadata, "spec": {}, "status": {}}) is None


@pytest.mark.parametrize("labels", [{}, {**LABELS, names.INDEX_LABEL: "first"}, {names.JOB_LABEL: "tj-a"}])
def test_a_pod_without_the_labels_of_a_replica_is_none(labels: dict[str, str]):
    assert pod_of({"metadata": {"labels": labels}}) is None
    assert pod_of({"metadata": {"labels": None}}) is None


@pytest.mark.parametrize(
    ("status", "has_begun", "has_ended"),
    [
        ({"phase": "Pending", "containerStatuses": [own({"waiting": {"reason": "ImagePullBackOff"}})]}, False, False),
        ({"phase": "Running", "containerStatuses": [own({"running": {}})]}, True, False),
        ({"phase": "Running", "containerStatuses": [own({"terminated": {"exitCode": 1}})]}, True, True),
        ({"phase": "Failed"}, False, True),
        ({"phase": "Running", "containerStatuses": [{"name": "helper", "state": {"terminated": {}}}]}, False, False),
    ],
)
def test_its_own_container_says_whether_it_runs_or_has_ended(status: dict[str, Any], has_begun: bool, has_ended: bool):
    pod = read(status=status)
    assert (pod.has_begun, pod.has_ended) == (has_begun, has_ended)


def test_an_init_container_counts_where_it_failed():
    done, failed = ({"name": name, "state": {"terminated": {"exitCode": code}}} for name, code in (("a", 0), ("b", 2)))
    assert read(status={"initContainerStatuses": [done]}).failed_init == ""
    assert read(status={"initContainerStatuses": [done, failed]}).failed_init == "b"


def at(kubelet: Path, place: str) -> Path:
    path = kubelet / "pods" / "u-1" / place
    path.mkdir(parents=True)
    return path


def mount(volume: str, path: str, part: str = "") -> dict[str, str]:
    return {"name": volume, "mountPath": path, **({"subPath": part} if part else {})}


def test_event_files_are_in_the_nearest_volume_above_them(tmp_path: Path):
    at(tmp_path, "volumes/kubernetes.io~empty-dir/outer")
    inner = at(tmp_path, "volumes/kubernetes.io~nfs/inner")
    volumes = {"outer": {"emptyDir": {}}, "inner": {"nfs": {"server": "s", "path": "/x"}}}
    mounts = [mount("outer", "/mnt"), mount("inner", "/mnt/data/"), mount("outer", "/mnt/data-2")]
    place = event_files_of(tmp_path, read(event_files="/mnt/data/runs/./x", volumes=volumes, mounts=mounts))
    assert place is not None
    assert (place.root, place.path) == (inner, inner / "runs/x")


def test_checkpoints_are_found_like_event_files(tmp_path: Path):
    volume = at(tmp_path, "volumes/kubernetes.io~empty-dir/out")
    pod = read(checkpoints="/out/kept", volumes={"out": {"emptyDir": {}}}, mounts=[mount("out", "/out")])
    assert (pod.event_files, pod.checkpoints) == (None, VolumePath("out", "emptyDir", "kept", mount=0))
    assert find_place(tmp_path, pod, pod.checkpoints) == Place(volume, volume / "kept")


def test_a_path_outside_of_every_volume_is_not_event_files_of(tmp_path: Path):
    pod = read(event_files="/mnt/../etc", volumes={"v": {"emptyDir": {}}}, mounts=[mount("v", "/mnt")])
    assert pod.event_files is None
    assert event_files_of(tmp_path, pod) is None


def test_a_directory_of_the_node_is_trusted_only_down_to_what_the_volume_names(tmp_path: Path):
    volumes = {"v": {"hostPath": {"path": str(tmp_path)}}}
    place = event_files_of(tmp_path, read(event_files="/d/runs", volumes=volumes, mounts=[mount("v", "/d", "part")]))
    assert place is not None
    assert (place.root, place.path) == (tmp_path, tmp_path / "part/runs")


@pytest.mark.parametrize(
    ("directory", "found"),
    [
        ("volumes/kubernetes.io~csi/pvc-7/mount", "volumes/kubernetes.io~csi/pvc-7/mount"),
        ("volumes/kubernetes.io~local-volume/disk-1", "volumes/kubernetes.io~local-volume/disk-1"),
    ],
)
def test_a_pods_one_claim_is_found_whatever_its_volume_is_called(tmp_path: Path, directory: str, found: str):
    at(tmp_path, directory)
    at(tmp_path, "volumes/kubernetes.io~projected/token")
    volumes = {"data": {"persistentVolumeClaim": {"claimName": "c"}}}
    place = event_files_of(tmp_path, read(event_files="/d/runs", volumes=volumes, mounts=[mount("data", "/d")]))
    assert place is not None
    assert place.path == tmp_path / "pods/u-1" / found / "runs"


def test_of_several_claims_a_part_is_found_by_its_mount(tmp_path: Path):
    claims = {name: {"persistentVolumeClaim": {"claimName": name}} for name in ("a", "b")}
    at(tmp_path, "volumes/kubernetes.io~csi/pvc-1/mount")
    at(tmp_path, "volumes/kubernetes.io~csi/pvc-2/mount")
    part = at(tmp_path, f"volume-subpaths/pvc-2/{names.REPLICA_CONTAINER}/1")
    pod = read(event_files="/b/x", volumes=claims, mounts=[mount("a", "/a"), mount("b", "/b", "team")])
    place = event_files_of(tmp_path, pod)
    assert place is not None
    assert place.path == part / "x"
    whole = read(event_files="/b/x", volumes=claims, mounts=[mount("a", "/a"), mount("b", "/b")])
    assert event_files_of(tmp_path, whole) is None
