"""The simulated kubelet on the test server and on a real API server: pods go through what their scripts say."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.kubernetes.clusters import Cluster, a_cluster, kinds_of_clusters
from tests.support.kubernetes.kubelet import SimulatedKubelet
from tests.support.kubernetes.nodes import NodeSpec
from tests.support.kubernetes.objects import bind, gone, made, pod
from tests.support.kubernetes.resources import Json
from tests.support.kubernetes.scripts import PodScript, annotation


@pytest.fixture(params=kinds_of_clusters())
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    async with a_cluster(request.param, tmp_path) as found:
        yield found


@asynccontextmanager
async def kubelet(cluster: Cluster, *names: str, **more: Any) -> AsyncIterator[SimulatedKubelet]:
    """Kubelets of nodes whose names are the test's own."""
    nodes = [NodeSpec(node_name(cluster, each), **more) for each in names or ("a",)]
    try:
        async with SimulatedKubelet(cluster.api, nodes) as found:
            yield found
    finally:
        for each in nodes:
            await cluster.api.delete(f"/api/v1/nodes/{each.name}")


def node_name(cluster: Cluster, name: str) -> str:
    return f"{cluster.namespace}-{name}"


async def placed(cluster: Cluster, name: str, script: PodScript, node: str = "a", **spec: Any) -> None:
    body = pod(name, **spec)
    body["metadata"]["annotations"] = annotation(script)
    await made(cluster, "pods", body)
    assert (await bind(cluster, name, node_name(cluster, node))).status == 201


async def status(cluster: Cluster, name: str, holds: Callable[[Json], bool]) -> Json:
    """The pod's status as soon as this holds."""
    async with asyncio.timeout(45):
        while True:
            item = (await cluster.api.get(cluster.path("pods", name))).body
            if holds(item.get("status", {})):
                return item["status"]
            await asyncio.sleep(0.02)


def phase(*wanted: str) -> Callable[[Json], bool]:
    return lambda status: status.get("phase") in wanted


def state(status: Json) -> Json:
    return status["containerStatuses"][0]["state"]


def waits(reason: str) -> Callable[[Json], bool]:
    return lambda status: state(status)["waiting"]["reason"] == reason if status.get("containerStatuses") else False


@pytest.mark.parametrize(
    ("script", "ended", "code", "reason"),
    [
        (PodScript(run_s=0), "Succeeded", 0, "Completed"),
        (PodScript(run_s=0, exit_code=3), "Failed", 3, "Error"),
        (PodScript(run_s=0, signal=9), "Failed", 137, "Error"),
        (PodScript(run_s=0, oom_killed=True), "Failed", 137, "OOMKilled"),
    ],
)
async def test_a_pod_ends_as_its_script_says(
    cluster: Cluster, script: PodScript, ended: str, code: int, reason: str
) -> None:
    async with kubelet(cluster):
        await placed(cluster, "a", script)
        found = await status(cluster, "a", phase("Succeeded", "Failed"))
    assert found["phase"] == ended
    terminated = state(found)["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (code, reason)


async def test_a_pod_runs_until_it_is_deleted_and_then_goes(cluster: Cluster) -> None:
    async with kubelet(cluster):
        await placed(cluster, "a", PodScript())
        running = await status(cluster, "a", phase("Running"))
        assert {each["type"]: each["status"] for each in running["conditions"]}["Ready"] == "True"
        assert running["podIP"] == "127.0.0.1"
        await cluster.api.delete(cluster.path("pods", "a"))
        await gone(cluster, "pods", "a")


async def test_a_pod_that_does_not_stop_is_killed_after_its_grace(cluster: Cluster) -> None:
    async with kubelet(cluster):
        await placed(cluster, "a", PodScript(stop_s=60))
        await status(cluster, "a", phase("Running"))
        watch = cluster.api.watch(cluster.path("pods"), fieldSelector="metadata.name=a")
        await cluster.api.delete(cluster.path("pods", "a"), {"gracePeriodSeconds": 1})
        async with asyncio.timeout(45):
            async for event in watch:
                if event["type"] == "DELETED":
                    break
        await watch.aclose()
    assert state(event["object"]["status"])["terminated"]["exitCode"] == 137


async def test_an_image_that_cannot_be_had_keeps_a_pod_pending(cluster: Cluster) -> None:
    async with kubelet(cluster):
        await placed(cluster, "a", PodScript(pull_error="no such image"))
        found = await status(cluster, "a", waits("ImagePullBackOff"))
        assert (found["phase"], state(found)["waiting"]["message"]) == ("Pending", "no such image")
        await cluster.api.delete(cluster.path("pods", "a"))
        await gone(cluster, "pods", "a")


async def test_a_failed_init_container_fails_the_pod(cluster: Cluster) -> None:
    init = [{"name": "code", "image": "registry.example/none:1"}]
    async with kubelet(cluster):
        await placed(cluster, "a", PodScript(init_exit_code=2), initContainers=init)
        found = await status(cluster, "a", phase("Failed"))
    assert found["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 2
    assert "terminated" not in state(found)


async def test_an_eviction_fails_the_pod_with_its_reason(cluster: Cluster) -> None:
    async with kubelet(cluster):
        await placed(cluster, "a", PodScript(run_s=0, evicted="The node was low on resource: memory."))
        found = await status(cluster, "a", phase("Failed"))
    assert (found["reason"], found["message"]) == ("Evicted", "The node was low on resource: memory.")
    assert "DisruptionTarget" in {each["type"] for each in found["conditions"]}


async def test_a_pod_that_finds_no_room_on_its_node_is_rejected(cluster: Cluster) -> None:
    limits = {
        "resources": {"limits": {"cpu": "3", "memory": "1Gi"}},
        "name": "main",
        "image": "registry.example/none:1",
    }
    async with kubelet(cluster, cpu="4"):
        await placed(cluster, "a", PodScript(), containers=[limits])
        await status(cluster, "a", phase("Running"))
        await placed(cluster, "b", PodScript(), containers=[limits])
        found = await status(cluster, "b", phase("Failed"))
    assert found["reason"] == "OutOfcpu"
    # A DaemonSet of the cluster may use a little, too.
    assert re.search(r"requested: 3000, used: 3\d\d\d, capacity: 4000", found["message"])


async def test_a_lost_node_is_unknown_and_its_pods_end_no_more(cluster: Cluster) -> None:
    async with kubelet(cluster, "a", "b") as found:
        await placed(cluster, "a", PodScript())
        await status(cluster, "a", phase("Running"))
        await found.lose(node_name(cluster, "a"))
        node = (await cluster.api.get(f"/api/v1/nodes/{node_name(cluster, 'a')}")).body
        ready = next(each for each in node["status"]["conditions"] if each["type"] == "Ready")
        assert ready["status"] == "Unknown"
        assert "node.kubernetes.io/unreachable" in {each["key"] for each in node["spec"]["taints"]}
        await cluster.api.delete(cluster.path("pods", "a"))
        await placed(cluster, "b", PodScript(), "b")
        await status(cluster, "b", phase("Running"))
        left = (await cluster.api.get(cluster.path("pods", "a"))).body
        assert left["metadata"]["deletionTimestamp"]
        assert left["status"]["phase"] == "Running"
        await found.recover(NodeSpec(node_name(cluster, "a")))
        await gone(cluster, "pods", "a")


async def test_a_kubelet_that_starts_again_takes_up_what_is_there(cluster: Cluster) -> None:
    async with kubelet(cluster):
        await placed(cluster, "a", PodScript())
        await status(cluster, "a", phase("Running"))
    async with kubelet(cluster):
        await cluster.api.delete(cluster.path("pods", "a"))
        await gone(cluster, "pods", "a")


async def test_a_kubelet_outlives_an_absence_of_the_api_server(tmp_path: Path) -> None:
    async with a_cluster("test server", tmp_path) as cluster, kubelet(cluster):
        assert cluster.server is not None
        await placed(cluster, "a", PodScript(run_s=0.2, exit_code=4))
        await status(cluster, "a", phase("Running"))
        async with cluster.server.away():
            await asyncio.sleep(0.4)
        found = await status(cluster, "a", phase("Failed"))
        assert state(found)["terminated"]["exitCode"] == 4
        cluster.server.faults.cut_watches(mid_event=True)
        await placed(cluster, "b", PodScript(run_s=0))
        await status(cluster, "b", phase("Succeeded"))
