"""Who places a pod, and where it may be."""

from __future__ import annotations

from services.scheduler.engines.kubernetes.objects import ObjectSettings
from services.scheduler.engines.kubernetes.objects.settings import Toleration
from services.scheduler.ports.gangs import PoolTerms
from tests.support.gangs import JOB, a_gang, first_pod, of_kind


def affinity(pool: PoolTerms):
    required = first_pod(a_gang(pool=pool))["spec"]["affinity"]["nodeAffinity"]
    return required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]


def test_a_pod_waits_for_the_platform_to_bind_it():
    spec = first_pod(a_gang())["spec"]
    assert spec["schedulerName"] == "trainmaster"
    assert not {"nodeName", "schedulingGates", "affinity"} & spec.keys()


def test_a_pod_that_is_left_to_kubernetes_is_held_back_by_a_gate():
    spec = first_pod(a_gang(pool=PoolTerms("kubernetes")))["spec"]
    assert spec["schedulingGates"] == [{"name": "trainmaster.dev/gang"}]
    assert "schedulerName" not in spec


def test_it_stays_within_the_pools_nodes_by_name_or_by_all_of_the_labels():
    assert affinity(PoolTerms("kubernetes", ("b", "a"), {"x": "1", "y": "2"})) == [
        {
            "matchExpressions": [
                {"key": "x", "operator": "In", "values": ["1"]},
                {"key": "y", "operator": "In", "values": ["2"]},
            ]
        },
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]},
    ]


def test_nodes_that_are_barred_are_left_out_of_labels_and_names_and_of_all():
    labelled, _, named = affinity(PoolTerms("kubernetes", ("a", "b"), {"x": "1"}, barred=("b",)))
    not_b = {"key": "metadata.name", "operator": "NotIn", "values": ["b"]}
    assert labelled["matchFields"] == [not_b]
    assert named["matchFields"] == [{**not_b, "operator": "In"}, not_b]
    assert affinity(PoolTerms("kubernetes", barred=("b",))) == [{"matchFields": [not_b]}]


def test_volcano_gets_a_group_of_the_whole_gang():
    gang = a_gang({"master": 1, "worker": 2}, gang_scheduler="volcano", queue="training", gpus=1)
    (group,) = of_kind(gang, "PodGroup")
    assert (group["spec"]["minMember"], group["spec"]["queue"]) == (3, "training")
    assert group["spec"]["minResources"] == {"cpu": "1500m", "memory": str(3 << 30), "nvidia.com/gpu": "3"}
    pod = first_pod(gang)
    assert pod["spec"]["schedulerName"] == "volcano"
    assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == f"{JOB}-1"


def test_without_a_queue_volcano_takes_its_own():
    (group,) = of_kind(a_gang(gang_scheduler="volcano"), "PodGroup")
    assert "queue" not in group["spec"]


def test_taints_are_borne_that_an_admin_names():
    set_up = ObjectSettings(tolerations=(Toleration("a"), Toleration("b", "c", "NoSchedule")))
    assert first_pod(a_gang(), set_up)["spec"]["tolerations"] == [
        {"key": "a", "operator": "Exists"},
        {"key": "b", "operator": "Equal", "value": "c", "effect": "NoSchedule"},
    ]
