"""What this project counts on of a Kubernetes API server, asked of the test server and of a real one alike.

Whatever an engine test finds out on the test server is worth as much as this file is complete.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.kubernetes.clusters import NO_CLUSTER, Cluster, a_cluster, kinds_of_clusters, real_kubeconfig
from tests.support.kubernetes.objects import bind, bound, config_map, made, pod
from tests.support.kubernetes.resources import Json

STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
LEASES = "coordination.k8s.io/v1"
NO_SUCH_UID = "00000000-0000-0000-0000-000000000000"


@pytest.fixture(params=kinds_of_clusters())
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    async with a_cluster(request.param, tmp_path) as found:
        yield found


@pytest.mark.skipif(real_kubeconfig() is None, reason=NO_CLUSTER)
async def test_the_cluster_that_kubeconfig_names_is_asked_too(tmp_path: Path) -> None:
    async with a_cluster("cluster", tmp_path) as found:
        assert (await found.api.get("/version")).body["gitVersion"].startswith("v1.")


async def test_a_new_object_gets_identity_and_revision(cluster: Cluster) -> None:
    item = await made(cluster, "configmaps", config_map("a"))
    assert item["metadata"]["uid"]
    assert item["metadata"]["creationTimestamp"].endswith("Z")
    assert int(item["metadata"]["resourceVersion"]) > 0
    assert item["metadata"]["namespace"] == cluster.namespace
    assert (await cluster.api.get(cluster.path("configmaps", "a"))).body["data"] == {"key": "value"}


async def test_revisions_are_counted_over_all_kinds(cluster: Cluster) -> None:
    first = await made(cluster, "configmaps", config_map("a"))
    second = await made(cluster, "secrets", {"metadata": {"name": "a"}, "stringData": {"key": "value"}})
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])


async def test_a_second_creation_is_refused_as_existing(cluster: Cluster) -> None:
    await made(cluster, "configmaps", config_map("a"))
    answer = await cluster.api.post(cluster.path("configmaps"), config_map("a"))
    assert (answer.status, answer.reason) == (409, "AlreadyExists")
    assert answer.message == 'configmaps "a" already exists'
    assert answer.body["details"] == {"name": "a", "kind": "configmaps"}


async def test_a_missing_object_is_named(cluster: Cluster) -> None:
    answer = await cluster.api.get(cluster.path("leases", "a", group=LEASES))
    assert (answer.status, answer.reason) == (404, "NotFound")
    assert answer.message == 'leases.coordination.k8s.io "a" not found'
    assert answer.body["details"] == {"name": "a", "group": "coordination.k8s.io", "kind": "leases"}


async def test_a_missing_namespace_is_named(cluster: Cluster) -> None:
    answer = await cluster.api.post("/api/v1/namespaces/tm-none/configmaps", config_map("a"))
    assert (answer.status, answer.message) == (404, 'namespaces "tm-none" not found')


async def test_an_unknown_path_is_not_found(cluster: Cluster) -> None:
    answer = await cluster.api.get("/apis/none.example/v1/things")
    assert answer.status == 404


async def test_names_are_made_from_a_prefix(cluster: Cluster) -> None:
    body = {"metadata": {"generateName": "some-"}, "data": {}}
    item = await made(cluster, "configmaps", body)
    assert item["metadata"]["name"].startswith("some-")
    assert len(item["metadata"]["name"]) == len("some-") + 5


@pytest.mark.parametrize(
    ("plural", "body", "field"),
    [
        ("configmaps", config_map("Not_A_Name"), "metadata.name"),
        ("configmaps", config_map("a", labels={"key": "no value!"}), "metadata.labels"),
        ("configmaps", config_map("a", annotations={"key": "x" * (257 << 10)}), "metadata.annotations"),
        ("configmaps", {"metadata": {"name": "a"}, "data": {"a/b": ""}}, "data[a/b]"),
        ("configmaps", {"metadata": {"name": "a"}, "data": {"key": "x" * (1025 << 10)}}, "[]"),
        ("pods", pod("a", containers=[]), "spec.containers"),
        ("pods", pod("a", containers=[{"name": "main"}]), "spec.containers[0].image"),
        ("pods", pod("a", hostname="Not_A_Label"), "spec.hostname"),
        (
            "pods",
            pod("a", containers=[{"name": "m", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]),
            "spec.containers[0].volumeMounts[0].name",
        ),
    ],
)
async def test_invalid_objects_are_refused_with_the_field(
    cluster: Cluster, plural: str, body: Json, field: str
) -> None:
    answer = await cluster.api.post(cluster.path(plural), body)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert field in [cause.get("field", "") for cause in answer.body["details"]["causes"]]


async def test_a_body_that_is_no_json_is_a_bad_request(cluster: Cluster) -> None:
    answer = await cluster.api.ask("POST", cluster.path("configmaps"), "no object")
    assert (answer.status, answer.reason) == (400, "BadRequest")


async def test_a_body_of_an_unknown_media_type_is_not_taken(cluster: Cluster) -> None:
    path = cluster.path("configmaps")
    assert (await cluster.api.ask("POST", path, config_map("a"), media_type="application/x-none")).status == 415


async def test_an_update_from_an_old_revision_conflicts(cluster: Cluster) -> None:
    first = await made(cluster, "configmaps", config_map("a"))
    path = cluster.path("configmaps", "a")
    second = await cluster.api.put(path, {**first, "data": {"key": "second"}})
    assert second.status == 200
    answer = await cluster.api.put(path, {**first, "data": {"key": "third"}})
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to '
        "the latest version and try again"
    )


async def test_an_update_without_a_revision_wins(cluster: Cluster) -> None:
    await made(cluster, "configmaps", config_map("a"))
    answer = await cluster.api.put(cluster.path("configmaps", "a"), {**config_map("a"), "data": {"key": "new"}})
    assert (answer.status, answer.body["data"]) == (200, {"key": "new"})


async def test_an_update_of_another_uid_conflicts(cluster: Cluster) -> None:
    await made(cluster, "configmaps", config_map("a"))
    answer = await cluster.api.put(cluster.path("configmaps", "a"), config_map("a", uid=NO_SUCH_UID))
    assert (answer.status, answer.reason) == (409, "Conflict")


async def test_an_update_that_changes_nothing_keeps_the_revision(cluster: Cluster) -> None:
    item = await made(cluster, "configmaps", config_map("a"))
    answer = await cluster.api.put(cluster.path("configmaps", "a"), item)
    assert answer.body["metadata"]["resourceVersion"] == item["metadata"]["resourceVersion"]


async def test_an_update_of_a_missing_object_is_not_found(cluster: Cluster) -> None:
    assert (await cluster.api.put(cluster.path("configmaps", "a"), config_map("a"))).status == 404


async def test_the_three_kinds_of_patches(cluster: Cluster) -> None:
    await made(cluster, "pods", pod("a"))
    path = cluster.path("pods", "a")
    merged = await cluster.api.patch(path, {"metadata": {"labels": {"a": "1", "b": "2"}}})
    assert merged.body["metadata"]["labels"] == {"a": "1", "b": "2"}
    operations = [
        {"op": "test", "path": "/metadata/labels/a", "value": "1"},
        {"op": "remove", "path": "/metadata/labels/a"},
    ]
    assert (await cluster.api.patch(path, operations, JSON_PATCH)).body["metadata"]["labels"] == {"b": "2"}
    image = {"spec": {"containers": [{"name": "main", "image": "other:1"}]}}
    strategic = await cluster.api.patch(path, image, STRATEGIC)
    assert [(each["name"], each["image"]) for each in strategic.body["spec"]["containers"]] == [("main", "other:1")]
    unknown = await cluster.api.patch(path, {}, "application/none+json")
    assert unknown.status == 415


async def test_a_patch_can_insist_on_a_revision(cluster: Cluster) -> None:
    item = await made(cluster, "configmaps", config_map("a"))
    path = cluster.path("configmaps", "a")
    await cluster.api.patch(path, {"data": {"key": "second"}})
    old = {"metadata": {"resourceVersion": item["metadata"]["resourceVersion"]}, "data": {"key": "third"}}
    assert (await cluster.api.patch(path, old)).status == 409


async def test_a_status_patch_merges_conditions_by_type(cluster: Cluster) -> None:
    await made(cluster, "pods", pod("a"))
    path = cluster.path("pods", "a", "status")
    for kind in ("Ready", "Initialized"):
        patch = {"status": {"conditions": [{"type": kind, "status": "False"}]}}
        assert (await cluster.api.patch(path, patch, STRATEGIC)).status == 200
    item = (await cluster.api.get(cluster.path("pods", "a"))).body
    assert {each["type"] for each in item["status"]["conditions"]} == {"Ready", "Initialized"}


async def test_a_new_pod_is_pending_and_gets_defaults(cluster: Cluster) -> None:
    plain = {"containers": [{"name": "main", "image": "registry.example/none:1"}]}
    item = await made(cluster, "pods", {"metadata": {"name": "a"}, "spec": plain, "status": {"phase": "Running"}})
    assert item["status"]["phase"] == "Pending"
    assert item["status"]["qosClass"] == "BestEffort"
    assert (item["spec"]["terminationGracePeriodSeconds"], item["spec"]["schedulerName"]) == (30, "default-scheduler")
    tolerated = {each["key"] for each in item["spec"]["tolerations"]}
    assert tolerated == {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


async def test_requests_are_filled_in_from_limits(cluster: Cluster) -> None:
    limits = {"cpu": "1", "memory": "1Gi"}
    item = await made(
        cluster, "pods", pod("a", containers=[{"name": "m", "image": "i", "resources": {"limits": limits}}])
    )
    assert item["spec"]["containers"][0]["resources"]["requests"] == limits
    assert item["status"]["qosClass"] == "Guaranteed"


async def test_an_update_leaves_the_status_and_a_status_update_the_spec(cluster: Cluster) -> None:
    item = await made(cluster, "pods", pod("a"))
    path = cluster.path("pods", "a")
    changed = {**item, "status": {"phase": "Running"}, "metadata": {**item["metadata"], "labels": {"a": "1"}}}
    updated = (await cluster.api.put(path, changed)).body
    assert (updated["status"]["phase"], updated["metadata"]["labels"]) == ("Pending", {"a": "1"})
    changed = {**updated, "status": {"phase": "Running"}, "spec": {**updated["spec"], "activeDeadlineSeconds": 5}}
    status = (await cluster.api.put(cluster.path("pods", "a", "status"), changed)).body
    assert (status["status"]["phase"], status["spec"].get("activeDeadlineSeconds")) == ("Running", None)


async def test_what_a_pod_runs_cannot_be_changed(cluster: Cluster) -> None:
    item = await made(cluster, "pods", pod("a"))
    answer = await cluster.api.put(cluster.path("pods", "a"), {**item, "spec": {**item["spec"], "hostname": "b"}})
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert "Forbidden: pod updates may not change fields other than" in answer.message


async def test_a_secret_keeps_its_plain_text_encoded(cluster: Cluster) -> None:
    item = await made(cluster, "secrets", {"metadata": {"name": "a"}, "stringData": {"key": "value"}})
    assert (item["type"], item["data"]) == ("Opaque", {"key": "dmFsdWU="})
    assert "stringData" not in item


async def test_a_headless_service_has_no_address_and_needs_no_ports(cluster: Cluster) -> None:
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"a": "b"}}
    item = await made(cluster, "services", {"metadata": {"name": "a"}, "spec": spec})
    assert (item["spec"]["clusterIP"], item["spec"]["type"]) == ("None", "ClusterIP")
    other = await made(cluster, "services", {"metadata": {"name": "b"}, "spec": {"ports": [{"port": 80}]}})
    assert other["spec"]["clusterIP"].startswith("10.")
    assert other["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]


async def test_leases_and_network_policies_are_kept(cluster: Cluster) -> None:
    lease = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me", "renewTime": "2026-01-01T00:00:00.000001Z"}}
    assert (await made(cluster, "leases", lease, group=LEASES))["spec"] == lease["spec"]
    policy = {
        "metadata": {"name": "a"},
        "spec": {"podSelector": {"matchLabels": {"a": "b"}}, "policyTypes": ["Ingress"]},
    }
    assert (await made(cluster, "networkpolicies", policy, group="networking.k8s.io/v1"))["spec"] == policy["spec"]


async def test_binding_gives_a_pod_its_node_once(cluster: Cluster) -> None:
    await made(cluster, "pods", pod("a"))
    first = await bind(cluster, "a", "node-a")
    assert (first.status, first.body["kind"], first.body["status"]) == (201, "Status", "Success")
    item = (await cluster.api.get(cluster.path("pods", "a"))).body
    assert item["spec"]["nodeName"] == "node-a"
    assert [(each["type"], each["status"]) for each in item["status"]["conditions"]] == [("PodScheduled", "True")]
    again = await bind(cluster, "a", "node-b")
    assert (again.status, again.reason) == (409, "Conflict")
    assert again.message == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "node-a"'
    )


async def test_binding_is_for_one_uid_and_for_pods_that_exist(cluster: Cluster) -> None:
    await made(cluster, "pods", pod("a"))
    assert (await bind(cluster, "a", "node-a", uid=NO_SUCH_UID)).status == 409
    assert (await bind(cluster, "b", "node-a")).status == 404


async def test_a_pod_without_a_node_is_deleted_at_once(cluster: Cluster) -> None:
    await made(cluster, "pods", pod("a"))
    answer = await cluster.api.delete(cluster.path("pods", "a"))
    assert (answer.status, answer.body["kind"]) == (200, "Pod")
    assert (await cluster.api.get(cluster.path("pods", "a"))).status == 404


async def test_a_pod_on_a_node_stays_until_its_kubelet_lets_go(cluster: Cluster) -> None:
    await bound(cluster, "a", terminationGracePeriodSeconds=40)
    path = cluster.path("pods", "a")
    answer = await cluster.api.delete(path)
    assert answer.body["metadata"]["deletionGracePeriodSeconds"] == 40
    item = (await cluster.api.get(path)).body
    assert item["metadata"]["deletionTimestamp"]
    assert (await bind(cluster, "a", "node-b")).status == 409
    shorter = await cluster.api.delete(path, {"gracePeriodSeconds": 5})
    assert shorter.body["metadata"]["deletionGracePeriodSeconds"] == 5
    options = {"gracePeriodSeconds": 0, "preconditions": {"uid": item["metadata"]["uid"]}}
    assert (await cluster.api.delete(path, options)).status == 200
    assert (await cluster.api.get(path)).status == 404


async def test_a_pod_that_ended_is_deleted_at_once(cluster: Cluster) -> None:
    await bound(cluster, "a")
    await cluster.api.patch(cluster.path("pods", "a", "status"), {"status": {"phase": "Failed"}})
    assert (await cluster.api.delete(cluster.path("pods", "a"))).status == 200
    assert (await cluster.api.get(cluster.path("pods", "a"))).status == 404


async def test_deletion_can_insist_on_a_uid(cluster: Cluster) -> None:
    await made(cluster, "configmaps", config_map("a"))
    path = cluster.path("configmaps", "a")
    answer = await cluster.api.delete(path, {"preconditions": {"uid": NO_SUCH_UID}})
    assert (answer.status, answer.reason) == (409, "Conflict")
    done = await cluster.api.delete(path)
    assert (done.status, done.body["kind"], done.body["status"]) == (200, "Status", "Success")
    assert (await cluster.api.delete(path)).status == 404


async def test_a_whole_selection_is_deleted(cluster: Cluster) -> None:
    for name, gang in (("a", "1"), ("b", "1"), ("c", "2")):
        await made(cluster, "configmaps", config_map(name, labels={"gang": gang}))
    answer = await cluster.api.delete(cluster.path("configmaps"), labelSelector="gang=1")
    assert (answer.status, answer.body["kind"]) == (200, "ConfigMapList")
    left = (await cluster.api.get(cluster.path("configmaps"), labelSelector="gang")).body
    assert [each["metadata"]["name"] for each in left["items"]] == ["c"]
