"""Which GPUs of a node a diagnosis may use: those that no pod has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from services.agent.kubernetes.allocations import CHECKPOINT, Allocations, read_allocations
from services.agent.kubernetes.gpu_pods import NO_DRIVER, UNSEEN, GpuPods, gpu_pod_of, used_by
from shared.agent_facts import Gpu
from shared.kubernetes.watch import Changed, Gone, Listed, Unreachable, Watching
from tests.support.probes import measurement

FOUR = tuple(Gpu(f"GPU-{name}", "NVIDIA H200") for name in "abcd")


def pod(uid: str = "p-1", limits: Mapping[str, Any] | None = None, phase: str = "Running", **spec: Any) -> Any:
    """News of a pod, as the watch gives it."""
    container = {"resources": {"limits": limits if limits is not None else {"nvidia.com/gpu": "2"}}}
    metadata = {"uid": uid, "namespace": "ns", "name": uid}
    given = {"metadata": metadata, "spec": {"containers": [container], **spec}, "status": {"phase": phase}}
    return uid, gpu_pod_of(given)


def node(given: Mapping[str, set[str]] | None = None, *pods: Any, offered: set[str] | None = None) -> GpuPods:
    held = {uid: frozenset(ids) for uid, ids in (given or {}).items()}
    allocations = Allocations(held, frozenset(offered or {gpu.id for gpu in FOUR}))
    found = GpuPods(lambda: allocations, sees_gpus=True)
    found.tell(Listed(pods))
    return found


def given_to(found: GpuPods, **more: Any) -> dict[str, str]:
    seen = found.seen(measurement(gpus=FOUR, **more))
    assert seen.kubelet_gives
    return {gpu.id: gpu.given_to for gpu in seen.gpus if gpu.given_to}


def test_gpus_that_a_pod_has_are_not_free_and_those_of_one_that_has_ended_are() -> None:
    given = {"p-1": {"GPU-a"}, "p-2": {"GPU-b"}, "p-3": {"GPU-c"}}
    found = node(given, pod("p-1"), pod("p-2", phase="Succeeded"), pod("p-9", limits={"cpu": "1"}))
    assert given_to(found) == {"GPU-a": "pod ns/p-1 has it"}
    assert found.refusal(("GPU-b", "GPU-d")) == ""
    assert found.refusal(("GPU-b", "GPU-a")) == "pod ns/p-1 has it"


def test_a_pod_that_wants_gpus_and_has_none_yet_may_get_any() -> None:
    found = node({}, pod("p-1"))
    assert set(given_to(found).values()) == {"pod ns/p-1 may get any GPU of the node"}
    assert found.refusal(("GPU-a",)) != ""
    assert found.refusal(()) == ""


def test_so_may_one_that_claims_devices_by_another_way() -> None:
    assert len(given_to(node({}, pod(limits={}, resourceClaims=[{"name": "gpu"}])))) == 4
    assert given_to(node({}, pod(limits={"nvidia.com/gpu": 0}))) == {}


def test_shared_and_divided_gpus_are_never_tested() -> None:
    shared = node(offered={"GPU-a::0", "GPU-a::1"})
    assert set(given_to(shared).values()) == {"GPUs of the node are shared or divided"}
    assert not shared.seen(measurement(gpus=FOUR)).gpus_are_whole
    divided = node().seen(measurement(gpus=(Gpu("GPU-a", "NVIDIA H200", divided=True),)))
    assert divided.gpus[0].given_to == "it is divided (MIG)"


def test_while_pods_are_not_known_nothing_is_free() -> None:
    found = node()
    assert found.refusal(("GPU-a",)) == ""
    found.tell(Unreachable("gone"))
    assert found.refusal(("GPU-a",)) == "the pods of the node are not known now"
    found.tell(Watching())
    assert found.refusal(("GPU-a",)) == ""


async def test_a_pod_that_comes_wakes_whoever_waits_and_one_that_goes_gives_its_gpus_back() -> None:
    found = node()
    await found.changed()
    found.tell(Changed(pod("p-1")))
    await found.changed()
    assert found.refusal(("GPU-a",)) == "pod ns/p-1 may get any GPU of the node"
    found.tell(Gone(pod("p-1")))
    assert found.refusal(("GPU-a",)) == ""
    found.tell(Changed(pod("p-2")))
    found.tell(Changed(pod("p-2", phase="Failed")))
    assert found.refusal(("GPU-a",)) == ""


def test_who_uses_a_gpu_is_told_by_processes_and_by_memory() -> None:
    assert used_by(Gpu("GPU-a", "H200", memory_used_bytes=1 << 20)) == ""
    assert used_by(Gpu("GPU-a", "H200", processes={"7": "python", "9": ""})) == "processes use it: 7 (python), 9"
    assert used_by(Gpu("GPU-a", "H200", memory_used_bytes=3 << 30)) == "3Gi of its memory are used"


def test_an_agent_that_is_not_meant_to_see_gpus_says_so() -> None:
    unseen = GpuPods(Allocations, sees_gpus=False).seen(measurement(gpus=FOUR))
    assert (unseen.gpus, unseen.gpus_unseen) == ((), UNSEEN)
    assert node().seen(measurement()).gpus_unseen == NO_DRIVER
    assert node().seen(measurement(gpus_unknown="it hangs")).gpus_unseen == ""


def test_what_the_kubelet_gives_is_read_from_its_checkpoint(tmp_path: Path) -> None:
    entries = [
        {"PodUID": "p-1", "DeviceIDs": {"0": ["GPU-a"], "1": ["GPU-b::2"]}},
        {"PodUID": "p-1", "DeviceIDs": ["mlx5_0"]},
    ]
    offered = {"nvidia.com/gpu": ["GPU-a", "GPU-b"], "rdma/hca": None}
    (tmp_path / CHECKPOINT).parent.mkdir()
    (tmp_path / CHECKPOINT).write_text(
        json.dumps({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": offered}})
    )
    found = read_allocations(tmp_path)
    assert (found.devices("p-1"), found.gpus("p-1")) == ({"GPU-a", "GPU-b", "mlx5_0"}, {"GPU-a", "GPU-b"})
    assert found.offered == {"GPU-a", "GPU-b"}
    assert not found.are_shares


@pytest.mark.parametrize("content", ["", "{}", '{"Data": {"PodDeviceEntries": [1]}}', None])
def test_without_a_checkpoint_nothing_is_given(tmp_path: Path, content: str | None) -> None:
    (tmp_path / CHECKPOINT).parent.mkdir()
    if content is not None:
        (tmp_path / CHECKPOINT).write_text(content)
    assert read_allocations(tmp_path) == Allocations()
