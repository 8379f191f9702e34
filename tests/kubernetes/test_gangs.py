"""Gangs on Kubernetes from start to removal: whole, told once, and nothing left behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from services.scheduler.ports.gangs import PoolTerms
from services.scheduler.ports.reports import ReplicaStarted, ReplicaWaiting
from shared.clock import rfc3339
from shared.kubernetes.names import node_id
from tests.support.kubernetes.clusters import Cluster, a_cluster, kinds_of_clusters
from tests.support.kubernetes.engines import (
    GONE_S,
    NeverShipped,
    belongings,
    engine_on,
    gang_on,
    kubelets,
    node_name,
    pods_of,
    settings_for,
    until_left,
)
from tests.support.kubernetes.objects import bind
from tests.support.kubernetes.scripts import PodScript
from tests.support.services import eventually


@pytest.fixture(params=kinds_of_clusters())
async def cluster(request, tmp_path: Path) -> AsyncIterator[Cluster]:
    async with a_cluster(request.param, tmp_path) as made:
        yield made


async def test_a_gang_runs_on_the_nodes_that_were_decided_and_leaves_nothing(cluster):
    before = await belongings(cluster)
    gang = gang_on(cluster, "a", "b")
    async with kubelets(cluster, "a", "b"), engine_on(cluster) as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
        assert {pod["spec"]["nodeName"] for pod in await pods_of(cluster, gang)} == {
            node_name(cluster, "a"),
            node_name(cluster, "b"),
        }
        assert await desk.engine.stop(gang.id, 5)
        exits = await desk.exits(gang)
        assert {(end.cause, end.code) for end in exits} == {("stopped", 143)}
        await desk.engine.forget(gang.id)
        await until_left(cluster, before)


async def test_a_gang_that_is_left_to_kubernetes_runs_on_the_nodes_that_were_chosen_there(cluster):
    before = await belongings(cluster)
    made = gang_on(cluster, "a", replicas=3)
    # Pods are refused where an API server does not take how nodes are left out.
    terms = PoolTerms("kubernetes", (node_name(cluster, "b"),), {"pool": "x"}, barred=(node_name(cluster, "a"),))
    gang = replace(made, replicas=tuple(replace(each, pool=terms) for each in made.replicas))
    async with kubelets(cluster, "a", "b"), engine_on(cluster) as desk:
        await desk.engine.start(gang)
        pods = await pods_of(cluster, gang)
        assert [pod["spec"].get("schedulingGates") for pod in pods] == [None] * 3
        for pod in pods:
            # A cluster with a scheduler of its own has chosen already.
            answer = await bind(cluster, pod["metadata"]["name"], node_name(cluster, "b"))
            assert answer.status in {201, 409}, answer.message
        await desk.started(gang)
        told = {each.replica.node for each in desk.seen if isinstance(each, ReplicaStarted)}
        assert told == {node_id(cluster.namespace, node_name(cluster, "b"))}
        await desk.engine.stop(gang.id, 5)
        assert {end.cause for end in await desk.exits(gang)} == {"stopped"}
        await desk.engine.forget(gang.id)
        await until_left(cluster, before)


async def test_what_still_runs_of_a_gang_that_is_given_up_is_ended(cluster):
    gang = gang_on(cluster, "a")
    async with kubelets(cluster, "a"), engine_on(cluster, shipments=NeverShipped()) as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
        await desk.engine.forget(gang.id)

        async def none_left() -> bool | None:
            return not await pods_of(cluster, gang) or None

        await eventually(none_left)


async def test_exit_codes_are_told_and_ended_pods_stay_until_they_are_forgotten(cluster):
    def script(pod):
        return PodScript(run_s=0, exit_code=int(pod["metadata"]["name"][-1]) * 3)

    gang = gang_on(cluster, "a")
    async with kubelets(cluster, "a", script=script), engine_on(cluster) as desk:
        assert [end.code for end in await desk.run(gang)] == [0, 3]
        assert len(await pods_of(cluster, gang)) == 2


async def test_a_gang_that_is_started_before_the_nodes_are_known_waits_for_them(tmp_path: Path):
    async with a_cluster("test server", tmp_path) as cluster:
        late = cluster.server.faults.delay(r"^GET /api/v1/nodes\b", 0.3)
        gang = gang_on(cluster, "a")
        async with kubelets(cluster, "a"), engine_on(cluster) as desk:
            await desk.engine.start(gang)
            await desk.started(gang)
        assert late.hits == 1


async def test_a_gang_that_is_stopped_while_its_image_is_pulled_was_never_started(cluster):
    gang, unpulled = gang_on(cluster, "a"), PodScript(pull_error="no such image")
    async with kubelets(cluster, "a", script=lambda _: unpulled), engine_on(cluster) as desk:
        await desk.engine.start(gang)

        async def both_wait() -> bool | None:
            reasons = [each.reason for each in desk.seen if isinstance(each, ReplicaWaiting)]
            return sum("no such image" in each for each in reasons) >= 2 or None

        await eventually(both_wait)
        told = desk.engine.holdups(gang.id)
        assert sorted(told) == ["worker-0", "worker-1"]
        assert all("no such image" in why for why in told.values())
        assert await desk.engine.stop(gang.id, 1)
        exits = await desk.exits(gang)
        assert {end.message for end in exits} == {"the gang was stopped before it was started"}


async def test_whether_gangs_can_be_left_to_volcano_is_told_with_the_nodes(cluster):
    served = (await cluster.api.get("/apis/scheduling.volcano.sh/v1beta1")).status == 200
    async with engine_on(cluster) as desk:
        assert ("have Volcano installed" in (await desk.engine.inventory()).no_volcano_because) is not served


async def test_volcano_is_of_no_use_to_who_may_make_no_podgroups(tmp_path: Path):
    async with a_cluster("test server", tmp_path) as cluster:
        cluster.server.denied.add("create podgroups")
        async with engine_on(cluster) as desk:
            assert "jobs.volcano: true" in (await desk.engine.inventory()).no_volcano_because


async def test_what_an_event_says_of_a_pod_that_cannot_be_prepared_is_told(cluster):
    gang, stuck = gang_on(cluster, "a"), PodScript(start_s=GONE_S)
    settings = settings_for(cluster, inquire_s=0.1)
    async with kubelets(cluster, "a", script=lambda _: stuck), engine_on(cluster, settings) as desk:
        await desk.engine.start(gang)
        pods = await pods_of(cluster, gang)
        first = next(pod for pod in pods if pod["metadata"]["name"].endswith("-0"))
        made = await cluster.api.post(cluster.path("events"), missing_claim(first))
        assert made.status == 201, made.message

        async def is_told() -> bool | None:
            reasons = {each.replica.index: each.reason for each in desk.seen if isinstance(each, ReplicaWaiting)}
            return reasons.get(0, "").startswith("the claim team-data does not exist") or None

        await eventually(is_told)
        told = desk.engine.holdups(gang.id)
        assert told["worker-0"] == f"the claim team-data does not exist in namespace {cluster.namespace}"
        assert told["worker-1"] == "its node prepares the container"


def missing_claim(pod: dict) -> dict:
    """The event of a kubelet that looked for a claim of the pod."""
    metadata = pod["metadata"]
    said = f'error processing PVC {metadata["namespace"]}/team-data: persistentvolumeclaims "team-data" not found'
    seen_at = rfc3339(datetime.now(UTC) + timedelta(seconds=5)).partition(".")[0] + "Z"
    return {
        "metadata": {"name": f"{metadata['name']}.1", "namespace": metadata["namespace"]},
        "involvedObject": {"kind": "Pod", **{key: metadata[key] for key in ("name", "namespace", "uid")}},
        "type": "Warning",
        "reason": "FailedMount",
        "message": f"Unable to attach or mount volumes: failed to process volumes=[mount-0]: {said}",
        "firstTimestamp": seen_at,
        "lastTimestamp": seen_at,
        "count": 1,
    }
