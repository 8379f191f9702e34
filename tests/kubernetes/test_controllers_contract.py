"""What this project counts on of admission and of the controllers: garbage collection, namespaces, quotas, taints.

Asked of the test server, which has them built in, and of a real cluster's controller manager alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.kubernetes.clusters import Cluster, a_cluster, kinds_of_clusters
from tests.support.kubernetes.objects import bound, config_map, gone, made, pod

VOLCANO = "scheduling.volcano.sh/v1beta1"
NO_SUCH_UID = "00000000-0000-0000-0000-000000000000"


@pytest.fixture(params=kinds_of_clusters())
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    async with a_cluster(request.param, tmp_path) as found:
        yield found


async def test_what_loses_its_owner_is_collected(cluster: Cluster) -> None:
    owner = await made(cluster, "services", {"metadata": {"name": "owner"}, "spec": {"clusterIP": "None"}})
    reference = {"apiVersion": "v1", "kind": "Service", "name": "owner", "uid": owner["metadata"]["uid"]}
    await made(cluster, "configmaps", config_map("a", ownerReferences=[reference]))
    await made(cluster, "pods", {**pod("b"), "metadata": {"name": "b", "ownerReferences": [reference]}})
    await cluster.api.delete(cluster.path("services", "owner"), {"propagationPolicy": "Background"})
    await gone(cluster, "configmaps", "a")
    await gone(cluster, "pods", "b")


async def test_what_comes_with_a_dead_owner_is_collected(cluster: Cluster) -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": NO_SUCH_UID}
    await made(cluster, "configmaps", config_map("a", ownerReferences=[reference]))
    await gone(cluster, "configmaps", "a")


async def test_an_owner_deleted_in_the_foreground_outlives_its_dependents(cluster: Cluster) -> None:
    owner = await made(cluster, "configmaps", config_map("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    blocking = {**reference, "blockOwnerDeletion": True}
    await bound(cluster, "a")
    await cluster.api.patch(cluster.path("pods", "a"), {"metadata": {"ownerReferences": [blocking]}})
    path = cluster.path("configmaps", "owner")
    await cluster.api.delete(path, {"propagationPolicy": "Foreground"})
    async with asyncio.timeout(30):
        while "deletionTimestamp" not in (await cluster.api.get(cluster.path("pods", "a"))).body["metadata"]:
            await asyncio.sleep(0.05)
    assert (await cluster.api.get(path)).body["metadata"]["finalizers"] == ["foregroundDeletion"]
    await cluster.api.delete(cluster.path("pods", "a"), {"gracePeriodSeconds": 0})
    await gone(cluster, "configmaps", "owner")


async def test_an_ending_namespace_takes_nothing_new(cluster: Cluster) -> None:
    await bound(cluster, "a")  # keeps the namespace from ending
    answer = await cluster.api.delete(f"/api/v1/namespaces/{cluster.namespace}")
    assert answer.body["status"]["phase"] == "Terminating"
    refused = await cluster.api.post(cluster.path("configmaps"), config_map("a"))
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert "because it is being terminated" in refused.message
    assert refused.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    await cluster.api.delete(cluster.path("pods", "a"), {"gracePeriodSeconds": 0})


async def test_a_quota_refuses_what_is_over_it(cluster: Cluster) -> None:
    await made(cluster, "resourcequotas", {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}})
    path = cluster.path("resourcequotas", "few")
    if cluster.server is None:  # enforced only from when its controller has counted
        async with asyncio.timeout(30):
            while not (await cluster.api.get(path)).body.get("status", {}).get("used"):
                await asyncio.sleep(0.05)
    await made(cluster, "pods", pod("a"))
    answer = await cluster.api.post(cluster.path("pods"), pod("b"))
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message == (
        'pods "b" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1'
    )


async def test_a_new_node_is_tainted_until_somebody_finds_it_ready(cluster: Cluster) -> None:
    name = f"{cluster.namespace}-node"
    node = {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    item = (await cluster.api.post("/api/v1/nodes", node)).body
    await cluster.api.delete(f"/api/v1/nodes/{name}")
    assert item["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    assert [(each["type"], each["status"]) for each in item["status"]["conditions"]] == [("Ready", "True")]


async def test_a_pod_without_a_service_account_is_refused(cluster: Cluster) -> None:
    answer = await cluster.api.post(cluster.path("pods"), pod("a", serviceAccountName="nobody"))
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message == (
        f'pods "a" is forbidden: error looking up service account {cluster.namespace}/nobody: '
        'serviceaccount "nobody" not found'
    )


async def test_groups_of_volcano_are_kept_where_it_is_installed(cluster: Cluster) -> None:
    if (await cluster.api.get("/apis/scheduling.volcano.sh/v1beta1")).status != 200:
        pytest.skip("the cluster has no Volcano")
    group = {"metadata": {"name": "gang"}, "spec": {"minMember": 2, "queue": "default"}}
    versioned = {"apiVersion": VOLCANO, "kind": "PodGroup", **group}
    item = await made(cluster, "podgroups", versioned, group=VOLCANO)
    assert item["spec"] | group["spec"] == item["spec"]
    listed = (await cluster.api.get(cluster.path("podgroups", group=VOLCANO))).body
    assert [(each["kind"], each["metadata"]["name"]) for each in listed["items"]] == [("PodGroup", "gang")]
    path = cluster.path("podgroups", "gang", group=VOLCANO)
    refused = await cluster.api.patch(path, {}, "application/strategic-merge-patch+json")
    assert refused.status == 415
    assert (await cluster.api.delete(path)).body["status"] == "Success"
