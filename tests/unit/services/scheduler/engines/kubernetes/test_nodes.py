"""What nodes offer, and what others hold of them."""

from __future__ import annotations

from typing import Any

from services.scheduler.domain.nodes import SLOTS_MAX, NodeState
from services.scheduler.engines.kubernetes.nodes import Amounts, NodeReading, node_offer, node_seen, other_pod
from services.scheduler.engines.kubernetes.objects.settings import Toleration
from shared.kubernetes.names import machine_name, node_id

READING = NodeReading(leaf_label="topology/rack", spine_label="topology/block")
READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def node(ready: dict[str, Any] | None = None, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    allocatable = {"cpu": "7910m", "memory": "30Gi", "nvidia.com/gpu": "4", "pods": "110"}
    return {
        "metadata": {"name": "node-a", "labels": labels or {}, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": spec,
        "status": {"allocatable": allocatable, "conditions": [ready or READY], "nodeInfo": {"kernelVersion": "6.1"}},
    }


def offer(document: dict[str, Any], held: Amounts | None = None):
    return node_offer(node_seen(document, READING, "main"), held or Amounts(), "main")


def test_a_node_offers_what_is_allocatable_less_what_others_hold():
    found = offer(node(), Amounts(910, 2 << 30, 1))
    assert (found.cpu_m, found.memory_bytes, len(found.devices)) == (7000, 28 << 30, 3)
    assert (found.others_cpu_m, found.others_memory_bytes, len(found.others_devices)) == (910, 2 << 30, 1)


def test_a_node_that_others_hold_more_of_than_there_is_offers_nothing():
    found = offer(node(), Amounts(9000, 99 << 30, 9))
    assert (found.cpu_m, found.memory_bytes, found.devices) == (0, 0, ())
    assert found.others_cpu_m == 7910


def test_a_node_has_the_same_id_wherever_it_is_worked_out():
    assert offer(node()).id == node_id("main", "node-a")


def test_labels_are_facts_and_those_with_a_meaning_are_told_by_the_names_of_every_engine():
    labels = {"team": "a", "nvidia.com/gpu.product": "H200", "topology/rack": "r1", "topology/block": "b1"}
    found = offer(node(labels=labels))
    assert {device.model for device in found.devices} == {"H200"}
    assert (found.facts["team"], found.facts["leaf"], found.facts["spine"]) == ("a", "r1", "b1")
    assert (found.facts["machine"], found.facts["kernel"]) == (machine_name("main", "node-a"), "6.1")


def test_a_node_that_is_not_ready_is_lost_and_says_why():
    ready = {**READY, "status": "Unknown", "message": "Kubelet stopped posting node status."}
    found = offer(node(ready))
    assert found.state is NodeState.LOST
    assert found.because == "Kubernetes says that it is not ready: Kubelet stopped posting node status."


def test_a_cordoned_node_takes_nothing_new():
    found = offer(node(unschedulable=True))
    assert (found.state, found.because) == (NodeState.DRAINING, "it is cordoned in Kubernetes")


def test_a_taint_that_pods_do_not_bear_closes_a_node():
    taint = {"key": "dedicated", "value": "infra", "effect": "NoSchedule"}
    found = offer(node(taints=[taint]))
    assert (found.state, found.because) == (NodeState.DRAINING, "its taint dedicated=infra:NoSchedule keeps pods away")


def test_a_taint_that_pods_bear_or_that_is_only_a_wish_closes_none():
    bears = NodeReading(tolerations=(Toleration("dedicated", "train", "NoSchedule"), Toleration("gpu")))
    borne = [{"key": "dedicated", "value": "train", "effect": "NoSchedule"}, {"key": "gpu", "effect": "NoExecute"}]
    wish = {"key": "old", "effect": "PreferNoSchedule"}
    assert not node_seen(node(taints=[*borne, wish]), bears, "main").closed_because
    for other in ({"value": "infra", "effect": "NoSchedule"}, {"value": "train", "effect": "NoExecute"}):
        assert node_seen(node(taints=[{"key": "dedicated", **other}]), bears, "main").closed_because


def test_a_taint_that_follows_readiness_says_nothing_of_its_own():
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert offer(node(taints=[taint])).state is NodeState.READY


def test_a_node_takes_so_many_pods_less_those_of_others_and_any_number_where_it_says_nothing():
    found = offer(node(), Amounts(pods=30))
    assert (found.slots, found.others_slots) == (80, 30)
    crowded = offer(node(), Amounts(pods=130))
    assert (crowded.slots, crowded.others_slots) == (0, 110)
    silent = node()
    del silent["status"]["allocatable"]["pods"]
    assert offer(silent).slots == SLOTS_MAX


def test_another_pod_holds_what_its_containers_ask_for():
    asks = {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "1"}}}
    init = {"resources": {"requests": {"cpu": "2"}}}
    sidecar = {"resources": {"requests": {"cpu": "100m"}}, "restartPolicy": "Always"}
    spec = {"nodeName": "node-a", "containers": [asks, asks], "overhead": {"cpu": "10m"}}
    held = other_pod({"metadata": {"uid": "1"}, "spec": spec}, READING).held
    assert held == Amounts(1010, 2 << 30, 2, 1)
    spec["initContainers"] = [sidecar, init]
    assert other_pod({"metadata": {"uid": "1"}, "spec": spec}, READING).held.cpu_m == 2110


def test_a_pod_that_has_ended_or_has_no_node_holds_nothing():
    asks = [{"resources": {"requests": {"cpu": "500m"}}}]
    ended = {"metadata": {"uid": "1"}, "spec": {"nodeName": "a", "containers": asks}, "status": {"phase": "Succeeded"}}
    assert other_pod(ended, READING).held == Amounts()
    assert other_pod({"metadata": {"uid": "1"}, "spec": {"containers": asks}}, READING).held == Amounts()
