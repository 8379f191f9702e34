"""A gang's objects on API servers: taken as they are, under Pod Security `restricted`, and gone with their record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from services.scheduler.engines.kubernetes.objects import GangObjects, ObjectSettings, gang_objects
from services.scheduler.engines.kubernetes.objects.security import namespace
from services.scheduler.engines.kubernetes.objects.settings import PodUser, S3Volumes, VolumeSettings
from services.scheduler.ports.gangs import CodeInline, CodeUpload, GangMount, GangStart, PoolTerms
from shared.kubernetes.namespaces import Namespaces
from tests.support.gangs import a_gang
from tests.support.kubernetes.clusters import NO_CLUSTER, Cluster, a_cluster, kinds_of_clusters, real_kubeconfig
from tests.support.kubernetes.connection import Answer
from tests.support.kubernetes.resources import Json
from tests.support.services import eventually

GROUPS = {"NetworkPolicy": "networking.k8s.io/v1", "PodGroup": "scheduling.volcano.sh/v1beta1"}
PLURALS = {
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "Service": "services",
    "NetworkPolicy": "networkpolicies",
    "Pod": "pods",
}
RESTRICTED = VolumeSettings(s3=S3Volumes({}, "s3.example", {"bucket": "{bucket}"}))
MOUNTS = (
    GangMount(None, "/mnt/claim", uri="pvc://team", sub_path="a"),
    GangMount(None, "/mnt/bucket", uri="s3://bucket/key", read_only=True),
)
FULL = {
    "secrets": {"TOKEN": "x"},
    "image_pull_secret": '{"auths": {"registry.example": {}}}',
    "tensorboard_dir": "/runs",
    "hostfile_at": "/job/hostfile",
}


@pytest.fixture(params=kinds_of_clusters())
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    async with a_cluster(request.param, tmp_path) as found:
        yield found


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with a_cluster("cluster", tmp_path) as found:
        yield found


def settings_for(cluster: Cluster, **changes: object) -> ObjectSettings:
    set_up = ObjectSettings(
        Namespaces(cluster.namespace), platform_image="p:1", code_url="http://scheduler:8080", volumes=RESTRICTED
    )
    return replace(set_up, **changes)


async def made(cluster: Cluster, manifest: Json) -> Answer:
    kind = manifest["kind"]
    return await cluster.api.post(cluster.path(PLURALS[kind], group=GROUPS.get(kind, "")), manifest)


async def start(cluster: Cluster, gang: GangStart, set_up: ObjectSettings) -> tuple[GangObjects, list[Json]]:
    """Make everything; what was refused fails the test with the server's words."""
    objects = gang_objects(gang, set_up)
    record = await made(cluster, objects.record)
    assert record.status == 201, record.message
    uid = record.body["metadata"]["uid"]
    found = [record.body]
    for manifest in (*objects.owned_by(uid), *(objects.pod(replica, uid) for replica in gang.replicas)):
        answer = await made(cluster, manifest)
        assert answer.status == 201, answer.message
        found.append(answer.body)
    return objects, found


async def under(cluster: Cluster, set_up: ObjectSettings) -> None:
    """Give the test's namespace the labels that a namespace of jobs has with these settings."""
    labels = namespace(cluster.namespace, set_up)["metadata"]["labels"]
    answer = await cluster.api.patch(f"/api/v1/namespaces/{cluster.namespace}", {"metadata": {"labels": labels}})
    assert answer.status == 200, answer.message


@pytest.mark.parametrize("code", [CodeInline({"a.py": "1"}), CodeUpload("sha256:0", "ticket"), None])
async def test_every_object_is_taken_where_pods_are_restricted(cluster: Cluster, code):
    set_up = settings_for(cluster)
    await under(cluster, set_up)
    await start(cluster, a_gang({"master": 1, "worker": 2}, code=code, mounts=MOUNTS, **FULL), set_up)


async def test_the_server_keeps_objects_as_they_were_made(cluster: Cluster):
    objects, found = await start(cluster, a_gang(**FULL), settings_for(cluster))
    uid = found[0]["metadata"]["uid"]
    for wanted, got in zip(objects.owned_by(uid), found[1:], strict=False):
        assert got["metadata"]["labels"] == wanted["metadata"]["labels"]
        for key in wanted.keys() & {"data", "binaryData", "type"}:
            assert got[key] == wanted[key]


async def test_pods_that_are_left_to_kubernetes_wait_behind_their_gate(cluster: Cluster):
    gang = a_gang({"worker": 1}, pool=PoolTerms("kubernetes", ("a",), {"pool": "x"}))
    *_, pod = (await start(cluster, gang, settings_for(cluster)))[1]
    assert pod["spec"]["schedulingGates"] == [{"name": "trainmaster.dev/gang"}]


async def test_everything_is_gone_with_the_record(cluster: Cluster):
    _, (record, *_) = await start(cluster, a_gang(code=CodeInline({}), **FULL), settings_for(cluster))
    gone = await cluster.api.delete(cluster.path("configmaps", record["metadata"]["name"]))
    assert gone.status == 200, gone.message
    async with asyncio.timeout(60):
        while await left(cluster):
            await asyncio.sleep(0.1)


async def left(cluster: Cluster) -> list[str]:
    """Names of what still is there of gangs."""
    found = []
    for kind, plural in PLURALS.items():
        path = cluster.path(plural, group=GROUPS.get(kind, ""))
        items = (await cluster.api.get(path, labelSelector="app.kubernetes.io/managed-by=trainmaster")).body["items"]
        found += [item["metadata"]["name"] for item in items if not item["metadata"].get("deletionTimestamp")]
    return found


@pytest.mark.skipif(real_kubeconfig() is None, reason=NO_CLUSTER)
@pytest.mark.parametrize(
    ("changes", "mount", "level"),
    [
        ({"volumes": VolumeSettings(("/srv",))}, GangMount(None, "/mnt/a", uri="file:///srv/a"), "privileged"),
        ({"volumes": VolumeSettings(nfs=True)}, GangMount(None, "/mnt/a", uri="nfs://nas/a"), "baseline"),
        ({"user": PodUser(None, may_be_root=True)}, None, "baseline"),
    ],
)
async def test_what_an_admin_allows_lowers_the_level_no_further_than_it_must(real: Cluster, changes, mount, level):
    allowing, gang = settings_for(real, **changes), a_gang(mounts=(mount,) if mount else ())
    assert namespace("x", allowing)["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == level
    stricter = {"privileged": "baseline", "baseline": "restricted"}[level]
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": stricter}}}
    assert (await real.api.patch(f"/api/v1/namespaces/{real.namespace}", label)).status == 200
    objects = gang_objects(gang, allowing)
    record = (await made(real, objects.record)).body
    pod = objects.pod(gang.replicas[0], record["metadata"]["uid"])
    assert await eventually(lambda: tried(real, pod, 403))
    await under(real, allowing)
    assert await eventually(lambda: tried(real, pod, 201))


async def tried(cluster: Cluster, pod: Json, status: int) -> bool | None:
    """Whether the server answers so by now: it learns of labels a moment after it has taken them."""
    answer = await cluster.api.post(f"{cluster.path('pods')}?dryRun=All", pod)
    assert answer.status == 201 or "violates PodSecurity" in answer.message
    return answer.status == status or None
