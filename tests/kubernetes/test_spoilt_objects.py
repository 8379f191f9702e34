"""What others do to the objects of gangs, or make that looks like them: it harms no other gang, and hides none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from services.scheduler.engines.kubernetes.gangs import EXITS_KEY
from services.scheduler.engines.kubernetes.objects.record import RECORD_KEY
from services.scheduler.engines.kubernetes.objects.zipped import zipped
from services.scheduler.ports.gangs import GangStart
from services.scheduler.ports.reports import ReplicaExited
from shared.kubernetes.names import PHASE_ANNOTATION
from shared.kubernetes.namespaces import Namespaces
from tests.support.kubernetes.clusters import Cluster, a_cluster, kinds_of_clusters, namespaced
from tests.support.kubernetes.engines import (
    belongings,
    engine_on,
    gang_on,
    kubelets,
    pods_of,
    settings_for,
    until_left,
)
from tests.support.kubernetes.records import packed_record
from tests.support.kubernetes.resources import Json
from tests.support.local_engine import Bench

AGES_S = 99_999_999_999
"""A grace so long that it began before the first of all years."""
SPOILT = {
    "no gzip": "aGVsbG8=",
    "no such node": packed_record({"roles": [{"role": "worker", "nodes": ["n"], "nodeOf": [7]}]}),
    "numbers for names": packed_record({"job": 5}),
    "another gang": packed_record({"job": "tj-somebodyelse"}),
    "many gigabytes": packed_record({"job": "x" * (1 << 24)}),
}


@pytest.fixture(params=kinds_of_clusters())
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    async with a_cluster(request.param, tmp_path) as made:
        yield made


async def runs_and_ends(desk: Bench, gang: GangStart) -> None:
    """As if nothing had happened to others."""
    await desk.engine.start(gang)
    await desk.started(gang)
    await desk.engine.stop(gang.id, 1)
    assert {end.cause for end in await desk.exits(gang)} == {"stopped"}
    await desk.engine.forget(gang.id)


async def spoil(cluster: Cluster, gang: GangStart, record: str) -> None:
    change = {"binaryData": {RECORD_KEY: record, EXITS_KEY: zipped("[" * 100_000)}}
    path = cluster.path("configmaps", gang.id)
    answer = await cluster.api.ask("PATCH", path, change, media_type="application/merge-patch+json")
    assert answer.status == 200, answer.message


async def test_a_pod_that_is_deleted_with_a_grace_of_ages_hides_no_other(cluster: Cluster) -> None:
    before = await belongings(cluster)
    gang = gang_on(cluster, "a")
    async with kubelets(cluster, "a"), engine_on(cluster) as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
        first = gang.replica_id(gang.replicas[0])
        deleted = await cluster.api.delete(cluster.path("pods", first), {"gracePeriodSeconds": AGES_S})
        assert deleted.status == 200, deleted.message
        await desk.until(f"{first}/exited")
        await runs_and_ends(desk, gang_on(cluster, "a"))
        await desk.engine.stop(gang.id, 1)
        assert [end.cause for end in await desk.exits(gang)] == ["lost", "stopped"]
        await desk.engine.forget(gang.id)
        await until_left(cluster, before)


@pytest.mark.parametrize("record", SPOILT.values(), ids=SPOILT)
async def test_a_gang_whose_record_was_spoilt_can_be_ended_and_hides_no_other(cluster: Cluster, record: str) -> None:
    before = await belongings(cluster)
    gang = gang_on(cluster, "a")
    async with kubelets(cluster, "a"), engine_on(cluster) as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
        await spoil(cluster, gang, record)
        await runs_and_ends(desk, gang_on(cluster, "a"))
        assert await desk.engine.stop(gang.id, 1)
        assert {end.cause for end in await desk.exits(gang)} <= {"stopped", "lost"}
        await desk.engine.forget(gang.id)
        await until_left(cluster, before)


async def test_a_later_scheduler_ends_a_gang_whose_record_was_spoilt(cluster: Cluster) -> None:
    before = await belongings(cluster)
    gang = gang_on(cluster, "a")
    async with kubelets(cluster, "a"):
        async with engine_on(cluster) as desk:
            await desk.engine.start(gang)
            await desk.started(gang)
        await spoil(cluster, gang, SPOILT["no such node"])
        async with engine_on(cluster) as desk:
            await runs_and_ends(desk, gang_on(cluster, "a"))
            assert await desk.engine.stop(gang.id, 1)
            await desk.engine.forget(gang.id)
            await until_left(cluster, before)


async def test_a_copy_of_a_pod_or_of_a_record_is_none(cluster: Cluster) -> None:
    gang = gang_on(cluster, "a")
    async with kubelets(cluster, "a"), engine_on(cluster) as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
        first = gang.replica_id(gang.replicas[0])
        await copied(cluster, cluster, "pods", first, to="look-inside")
        await copied(cluster, cluster, "configmaps", gang.id, to="backup", phase="stopping")
        await runs_and_ends(desk, gang_on(cluster, "a"))
        await cluster.api.delete(cluster.path("pods", "look-inside"), {"gracePeriodSeconds": 0})
        await cluster.api.delete(cluster.path("configmaps", "backup"))
        await runs_and_ends(desk, gang_on(cluster, "a"))
        assert not any(isinstance(each, ReplicaExited) and each.replica.gang == gang.id for each in desk.seen)
        await desk.engine.stop(gang.id, 1)
        assert {end.cause for end in await desk.exits(gang)} == {"stopped"}


async def test_what_looks_like_a_gang_outside_of_the_platforms_namespaces_is_none(cluster: Cluster) -> None:
    settings = settings_for(cluster)
    namespaces = Namespaces(prefix=f"{cluster.namespace}-")
    settings = replace(settings, objects=replace(settings.objects, namespaces=namespaces))
    gang = gang_on(cluster, "a")
    at = f"{cluster.namespace}-default"
    async with (
        namespaced(cluster.kubeconfig, cluster.server, at) as projects,
        kubelets(cluster, "a"),
        engine_on(cluster, settings) as desk,
    ):
        await desk.engine.start(gang)
        await desk.started(gang)
        foreign = gang_on(cluster, "a")
        await copied(projects, cluster, "pods", gang.replica_id(gang.replicas[0]))
        await copied(projects, cluster, "configmaps", gang.id, phase="stopping")
        await runs_and_ends(desk, gang_on(cluster, "a"))
        await cluster.api.delete(cluster.path("pods", gang.replica_id(gang.replicas[0])), {"gracePeriodSeconds": 0})
        await runs_and_ends(desk, foreign)
        assert not any(isinstance(each, ReplicaExited) and each.replica.gang == gang.id for each in desk.seen)
        await desk.engine.stop(gang.id, 1)
        assert {end.cause for end in await desk.exits(gang)} == {"stopped"}
        assert not [pod for pod in await pods_of(projects, gang) if pod["status"]["phase"] == "Running"]


async def copied(source: Cluster, target: Cluster, plural: str, name: str, *, to: str = "", phase: str = "") -> None:
    """An object once more, as `kubectl get -o yaml`, an editor and `kubectl apply` make it."""
    found: Json = (await source.api.get(source.path(plural, name))).body
    annotations = {**found["metadata"]["annotations"], **({PHASE_ANNOTATION: phase} if phase else {})}
    metadata = {"name": to or name, "labels": found["metadata"]["labels"], "annotations": annotations}
    rest = {key: part for key, part in found.items() if key in ("spec", "data", "binaryData", "apiVersion", "kind")}
    made = await target.api.post(target.path(plural), {**rest, "metadata": metadata})
    assert made.status == 201, made.message
