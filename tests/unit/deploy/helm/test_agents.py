"""What helm makes of the agents: one a node, with what is asked for and no more."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest

from tests.support.helm import EVERYTHING, KUBERNETES, Manifest, named, of_kind, pod_of, render


@pytest.fixture(scope="module")
def plain() -> list[Manifest]:
    return render()


def test_the_agent_sees_processes_of_others_only_where_asked_for(plain: list[Manifest]) -> None:
    without, wanted = named(plain, "DaemonSet", "tm-trainmaster-agent"), render(EVERYTHING)
    assert "hostPID" not in pod_of(without)
    assert "add" not in pod_of(without)["containers"][0]["securityContext"]["capabilities"]
    pod = pod_of(named(wanted, "DaemonSet", "tm-trainmaster-agent"))
    assert pod["hostPID"] is True
    assert "SYS_PTRACE" in pod["containers"][0]["securityContext"]["capabilities"]["add"]


def agents(values: dict[str, Any]) -> tuple[Manifest, Manifest]:
    """The pods of the agents of nodes without and with GPUs."""
    found = render({"agent": values})
    plain, gpus = (named(found, "DaemonSet", f"tm-trainmaster-{name}") for name in ("agent", "agent-gpus"))
    return pod_of(plain), pod_of(gpus)


def matches(pod: Manifest, labels: dict[str, str]) -> bool:
    """Whether a node with these labels gets the pod."""
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    operators = {"In": lambda value, values: value in values, "NotIn": lambda value, values: value not in values}
    return any(
        all(operators[each["operator"]](labels.get(each["key"]), each["values"]) for each in term["matchExpressions"])
        for term in required["nodeSelectorTerms"]
    )


@pytest.mark.parametrize("labels", [{}, {"gpu": "yes"}, {"kind": "work"}, {"gpu": "yes", "kind": "work"}])
def test_every_node_gets_one_agent_and_those_with_gpus_the_one_that_sees_them(labels: dict[str, str]) -> None:
    plain, gpus = agents(
        {
            "gpus": {
                **EVERYTHING["agent"]["gpus"],
                "nodeSelector": {"gpu": "yes", "kind": "work", "nvidia.com/gpu.present": None},
            }
        }
    )
    assert (matches(plain, labels), matches(gpus, labels)) == (len(labels) < 2, len(labels) == 2)


def test_only_the_agent_of_nodes_with_gpus_sees_them_and_neither_asks_the_kubelet_for_any() -> None:
    plain, gpus = agents({"gpus": {"enabled": True}})
    told = [{each["name"]: each.get("value") for each in pod["containers"][0]["env"]} for pod in (plain, gpus)]
    assert "NVIDIA_VISIBLE_DEVICES" not in told[0]
    assert (told[1]["NVIDIA_VISIBLE_DEVICES"], told[1]["TRAINMASTER_NODE_GPUS"]) == ("all", "true")
    assert (plain.get("runtimeClassName"), gpus["runtimeClassName"]) == (None, "nvidia")
    assert [set(pod["containers"][0]["resources"]["limits"]) for pod in (plain, gpus)] == [{"memory"}, {"memory"}]


def test_agents_have_images_of_their_own_where_these_are_given() -> None:
    found = render(EVERYTHING)
    images = [pod_of(each)["containers"][0]["image"] for each in of_kind(found, "DaemonSet")]
    assert images == ["registry.example/agent:cpu", "registry.example/agent:cuda"]


def test_infiniband_takes_a_shared_adapter_or_else_privileges_and_the_nodes_network() -> None:
    shared, _ = agents({"gpus": {"enabled": True}, "infiniband": {"enabled": True, "resource": "rdma/hca"}})
    assert shared["containers"][0]["resources"]["limits"]["rdma/hca"] == 1
    assert shared["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    assert "hostNetwork" not in shared
    found = render({"agent": {"infiniband": {"enabled": True}}})
    (agent,) = of_kind(found, "DaemonSet")
    assert pod_of(agent)["containers"][0]["securityContext"]["privileged"] is True
    assert pod_of(agent)["hostNetwork"] is True
    for version in KUBERNETES:
        kubernetes_validate.validate(agent, version, strict=True)


def test_directories_of_the_kubelet_may_be_elsewhere_and_the_agent_finds_them_at_one_place() -> None:
    found = render({"agent": {"kubeletDirectory": "/mnt/kubelet", "podLogsDirectory": "/mnt/pods"}})
    pod = pod_of(named(found, "DaemonSet", "tm-trainmaster-agent"))
    of_node = {each["name"]: each["hostPath"]["path"] for each in pod["volumes"] if "hostPath" in each}
    seen = {each["mountPath"]: of_node.get(each["name"]) for each in pod["containers"][0]["volumeMounts"]}
    assert [seen[path] for path in ("/var/lib/kubelet", "/var/log/pods")] == ["/mnt/kubelet", "/mnt/pods"]


def test_directories_that_jobs_mount_are_shown_to_agents_and_cannot_be_written_by_them() -> None:
    for each in of_kind(render(EVERYTHING), "DaemonSet"):
        (container,) = pod_of(each)["containers"]
        shown = [mount for mount in container["volumeMounts"] if mount["mountPath"].startswith("/host/directories")]
        assert [mount["mountPath"] for mount in shown] == ["/host/directories/data", "/host/directories/mnt/more"]
        assert all(mount["readOnly"] for mount in shown)
        told = {variable["name"]: variable.get("value") for variable in container["env"]}
        assert told["TRAINMASTER_NODE_DIRECTORIES"] == "/data:/mnt/more"


@pytest.mark.parametrize(
    ("jobs", "expected"), [({"namespace": "jobs"}, "jobs/"), ({"namespacePrefix": "tm-"}, "trainmaster-jobs/tm-")]
)
def test_scheduler_and_agents_are_told_the_same_namespaces(jobs: dict[str, str], expected: str) -> None:
    found = render({"jobs": jobs})
    for each in (*of_kind(found, "DaemonSet"), named(found, "Deployment", "tm-trainmaster-scheduler")):
        (container, *_) = pod_of(each)["containers"]
        told = {variable["name"]: variable.get("value") for variable in container["env"]}
        assert f"{told['TRAINMASTER_KUBE_NAMESPACE']}/{told['TRAINMASTER_KUBE_NAMESPACE_PREFIX']}" == expected


def test_only_agents_reach_the_tests_of_agents(plain: list[Manifest]) -> None:
    policy = named(plain, "NetworkPolicy", "tm-trainmaster-agent")["spec"]
    (rule,) = policy["ingress"]
    assert rule == {"from": [{"podSelector": policy["podSelector"]}]}
    (chosen,) = policy["podSelector"]["matchExpressions"]
    labels = named(render(EVERYTHING), "DaemonSet", "tm-trainmaster-agent-gpus")["spec"]["template"]["metadata"][
        "labels"
    ]
    assert labels.items() >= policy["podSelector"]["matchLabels"].items()
    assert labels[chosen["key"]] in chosen["values"]
