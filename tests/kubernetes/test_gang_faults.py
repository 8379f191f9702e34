"""What goes wrong around a gang: it ends whole and explained, nothing runs twice, and nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from services.scheduler.engines.kubernetes.picture import Picture
from services.scheduler.ports.engine import NodeOffer, PlaceTakenError, StartRefusedError
from services.scheduler.ports.gangs import CodeInline
from services.scheduler.ports.reports import ReplicaExited, ReplicaWaiting
from shared.kubernetes.watch import Changed, Told
from tests.support.kubernetes.clusters import Cluster, a_cluster, kinds_of_clusters
from tests.support.kubernetes.engines import (
    belongings,
    die_while_starting,
    engine_on,
    gang_on,
    insist,
    kubelets,
    node_name,
    pods_of,
    settings_for,
    until_left,
)
from tests.support.kubernetes.meddling import Meddling, delete, delete_by_force, evict
from tests.support.kubernetes.objects import made, pod
from tests.support.kubernetes.scripts import PodScript
from tests.support.local_engine import Bench

RUNS = PodScript()


@pytest.fixture(params=kinds_of_clusters())
async def cluster(request, tmp_path: Path) -> AsyncIterator[Cluster]:
    async with a_cluster(request.param, tmp_path) as made:
        yield made


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Cluster]:
    """The test server, which can be made to fail."""
    async with a_cluster("test server", tmp_path) as made:
        yield made


async def clear(desk: Bench, cluster: Cluster, gang, before) -> list:
    """Stop and forget the gang; its exits, once nothing of it is left."""
    await desk.engine.stop(gang.id, 2)
    exits = await desk.exits(gang)
    await desk.engine.forget(gang.id)
    await until_left(cluster, before)
    assert sum(isinstance(each, ReplicaExited) for each in desk.seen) == len(gang.replicas)
    return exits


# --- the API server


async def test_a_server_that_is_too_busy_is_asked_again_when_it_says(served):
    fault = served.server.faults.refuse(r"POST .*/pods$", code=429, times=3, retry_after_s=1)
    gang = gang_on(served, "a")
    async with kubelets(served, "a"), engine_on(served) as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
    assert fault.hits == 3


@pytest.mark.parametrize("request_", [r"POST .*/pods$", r"PATCH .*/configmaps", r"POST .*/configmaps"])
async def test_an_answer_that_is_lost_starts_nothing_twice(served, request_):
    before = await belongings(served)
    fault = served.server.faults.lose_answer(request_, times=2)
    gang = gang_on(served, "a", replicas=4)
    async with kubelets(served, "a"), engine_on(served) as desk:
        await insist(desk, gang)
        await desk.started(gang)
        assert len(await pods_of(served, gang)) == 4
        assert fault.hits
        await clear(desk, served, gang, before)


# --- watches


@pytest.mark.parametrize("way", ["cut", "410 in the stream", "410 as status"])
async def test_a_watch_that_breaks_misses_nothing_and_tells_nothing_twice(served, way):
    faults = served.server.faults
    gangs = [gang_on(served, "a") for _ in range(3)]
    async with kubelets(served, "a"), engine_on(served) as desk:
        for gang in gangs:
            await desk.engine.start(gang)
            if way == "cut":
                faults.cut_watches()
            else:
                faults.gone_as_status = way == "410 as status"
                served.server.compact()
                faults.expire_watches()
        for gang in gangs:
            await desk.started(gang)
            assert desk.starts(gang) == 2
        await desk.engine.stop(gangs[0].id, 1)
        assert {end.cause for end in await desk.exits(gangs[0])} == {"stopped"}


async def test_watches_that_never_say_anything_again_are_noticed_and_made_anew(served):
    async with engine_on(served, settings_for(served, silence_s=0.5)) as desk:
        await desk.until_caught_up()
        assert not (await desk.engine.inventory()).nodes
        served.server.faults.lose_watches()
        async with kubelets(served, "a"), asyncio.timeout(45):
            while not (await desk.engine.inventory()).nodes:
                await asyncio.sleep(0.02)
            gang = gang_on(served, "a")
            await desk.engine.start(gang)
            await desk.started(gang)


async def test_something_that_cannot_be_read_makes_no_scheduler_blind(served, monkeypatch):
    monkeypatch.setattr("services.scheduler.engines.kubernetes.engine.WATCH_AGAIN_S", 0.1)
    spoilt: list[object] = []
    take = Picture.take_pods

    def fail_once(picture: Picture, news: Told) -> None:
        if isinstance(news, Changed) and not spoilt:
            spoilt.append(news)
            raise KeyError("something that nobody had thought of")
        take(picture, news)

    monkeypatch.setattr(Picture, "take_pods", fail_once)
    gang = gang_on(served, "a")
    async with kubelets(served, "a"), engine_on(served) as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
    assert spoilt


# --- the scheduler


@pytest.mark.parametrize("requests", [3, 60, 104, 105])
async def test_a_leader_that_dies_while_it_creates_100_pods_is_completed_by_the_next(cluster, requests):
    before = await belongings(cluster)
    gang = gang_on(cluster, "a", "b", replicas=100)
    async with kubelets(cluster, "a", "b"):
        await die_while_starting(cluster, gang, requests)
        made = {pod["metadata"]["uid"] for pod in await pods_of(cluster, gang)}
        async with engine_on(cluster) as desk:
            assert gang.id in await desk.until_caught_up()
            await desk.engine.start(gang)
            await desk.started(gang)
            pods = {pod["metadata"]["uid"] for pod in await pods_of(cluster, gang)}
            assert len(pods) == 100
            assert made <= pods
            assert desk.starts(gang) == 100
            await clear(desk, cluster, gang, before)


@pytest.mark.parametrize("requests", [50, 105])
async def test_a_leader_that_dies_while_it_creates_100_pods_may_be_followed_by_one_that_stops_them(cluster, requests):
    before = await belongings(cluster)
    gang = gang_on(cluster, "a", replicas=100)
    async with kubelets(cluster, "a"):
        await die_while_starting(cluster, gang, requests)
        async with engine_on(cluster) as desk:
            await desk.until_caught_up()
            exits = await clear(desk, cluster, gang, before)
    assert {end.cause for end in exits} <= {"never-started", "stopped"}


async def test_a_scheduler_that_starts_later_knows_all_that_ended_meanwhile(cluster):
    gang = gang_on(cluster, "a")
    codes = {0: 0, 1: 7}
    script = scripted(lambda index: PodScript(run_s=0.5, exit_code=codes[index]))
    async with kubelets(cluster, "a", script=script):
        async with engine_on(cluster) as desk:
            await desk.engine.start(gang)
        await asyncio.sleep(1)
        async with engine_on(cluster) as desk:
            assert gang.id in await desk.until_caught_up()
            assert [end.code for end in await desk.exits(gang)] == [0, 7]


async def test_how_stopped_replicas_ended_is_known_also_to_a_scheduler_that_starts_later(cluster):
    gang = gang_on(cluster, "a")
    async with kubelets(cluster, "a"):
        async with engine_on(cluster) as desk:
            await desk.engine.start(gang)
            await desk.started(gang)
            await desk.engine.stop(gang.id, 2)
            first = await desk.exits(gang)
        async with asyncio.timeout(30):
            while await pods_of(cluster, gang):
                await asyncio.sleep(0.02)
        async with engine_on(cluster) as desk:
            await desk.until_caught_up()
            assert await desk.exits(gang) == first


# --- nodes and pods


async def test_replicas_on_a_lost_node_are_lost_and_the_gang_can_be_removed(cluster):
    before = await belongings(cluster)
    gang = gang_on(cluster, "a", "b")
    settings = settings_for(cluster, lost_after_s=0.5)
    async with kubelets(cluster, "a", "b") as kubelet, engine_on(cluster, settings) as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
        await kubelet.lose(node_name(cluster, "b"))
        await desk.until(f"{gang.replica_id(gang.replicas[1])}/exited")
        exits = await clear(desk, cluster, gang, before)
    assert (exits[0].cause, exits[1].cause) == ("stopped", "lost")
    assert f"its node {node_name(cluster, 'b')} was lost" in exits[1].message


@pytest.mark.parametrize(
    ("meddle", "told"),
    [
        (delete, "somebody deleted its pod"),
        (delete_by_force, "its pod vanished: somebody deleted its pod"),
        (evict, "it was evicted through the API, as when a node is drained (Eviction API: evicting)"),
    ],
)
async def test_a_pod_that_somebody_removes_is_lost_and_never_made_again(cluster, meddle: Meddling, told: str):
    before = await belongings(cluster)
    gang = gang_on(cluster, "a")
    async with kubelets(cluster, "a"), engine_on(cluster) as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
        made = {pod["metadata"]["uid"] for pod in await pods_of(cluster, gang)}
        await meddle(cluster, gang.replica_id(gang.replicas[0]))
        await desk.until(f"{gang.replica_id(gang.replicas[0])}/exited")
        await desk.engine.start(gang)
        assert {pod["metadata"]["uid"] for pod in await pods_of(cluster, gang)} <= made
        exits = await clear(desk, cluster, gang, before)
    assert (exits[0].cause, exits[0].message) == ("lost", told)


async def test_a_record_that_somebody_deletes_ends_the_gang(cluster):
    before = await belongings(cluster)
    gang = gang_on(cluster, "a")
    async with kubelets(cluster, "a"), engine_on(cluster) as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
        await cluster.api.delete(cluster.path("configmaps", gang.id))
        assert {end.cause for end in await desk.exits(gang)} == {"lost"}
        assert await desk.engine.stop(gang.id, 1)
        await desk.engine.forget(gang.id)
        await until_left(cluster, before)


async def test_an_evicted_replica_is_lost_and_says_why(cluster):
    before = await belongings(cluster)
    gang = gang_on(cluster, "a")
    script = scripted(lambda index: PodScript(run_s=0.1, evicted="low on memory") if index else RUNS)
    async with kubelets(cluster, "a", script=script), engine_on(cluster) as desk:
        await desk.engine.start(gang)
        await desk.until(f"{gang.replica_id(gang.replicas[1])}/exited")
        exits = await clear(desk, cluster, gang, before)
    assert (exits[1].cause, exits[1].message) == ("lost", "its node evicted it (low on memory)")


async def test_an_image_that_does_not_exist_is_what_replicas_wait_for(cluster):
    before = await belongings(cluster)
    gang = gang_on(cluster, "a")
    script = scripted(lambda _: PodScript(pull_error="manifest unknown"))
    async with kubelets(cluster, "a", script=script), engine_on(cluster) as desk:
        await desk.engine.start(gang)
        async with asyncio.timeout(45):
            while not any("ImagePullBackOff" in reason for reason in waited(desk)):
                await asyncio.sleep(0.02)
        assert any("the image registry.example/train:1 cannot be pulled" in reason for reason in waited(desk))
        exits = await clear(desk, cluster, gang, before)
    assert {end.cause for end in exits} == {"never-started"}


async def test_a_failed_init_container_says_why_the_replica_never_started(cluster):
    gang = gang_on(cluster, "a", replicas=1, code=CodeInline({"train.py": "print()"}))
    script = scripted(lambda _: PodScript(init_exit_code=2))
    async with kubelets(cluster, "a", script=script), engine_on(cluster) as desk:
        (end,) = await desk.run(gang)
    assert end.cause == "never-started"
    assert "its init container code exited with code 2" in end.message


# --- what others take


async def test_a_quota_that_is_reached_half_way_refuses_the_gang_and_leaves_nothing(cluster):
    await with_quota(cluster, pods=3)
    before = await belongings(cluster)
    gang = gang_on(cluster, "a", replicas=6)
    async with kubelets(cluster, "a"), engine_on(cluster) as desk:
        with pytest.raises(StartRefusedError, match="exceeded quota"):
            await desk.engine.start(gang)
        exits = await clear(desk, cluster, gang, before)
    assert {end.cause for end in exits} == {"never-started"}


async def test_a_node_that_has_no_room_any_more_displaces_the_gang(cluster):
    before = await belongings(cluster)
    gang = gang_on(cluster, "a", "b")
    script = scripted(lambda index: PodScript(rejected="OutOfmemory") if index else RUNS)
    async with kubelets(cluster, "a", "b", script=script), engine_on(cluster) as desk:
        await desk.engine.start(gang)
        await desk.until(f"{gang.replica_id(gang.replicas[1])}/exited")
        exits = await clear(desk, cluster, gang, before)
    assert (exits[1].cause, exits[1].displaced) == ("never-started", True)


async def test_a_node_that_was_closed_since_it_was_decided_gets_no_pod(cluster):
    before = await belongings(cluster)
    gang = gang_on(cluster, "a")
    async with kubelets(cluster, "a"), engine_on(cluster) as desk:
        await desk.until_caught_up()
        await cluster.api.patch(f"/api/v1/nodes/{node_name(cluster, 'a')}", {"spec": {"unschedulable": True}})
        async with asyncio.timeout(45):
            while not (await seen(desk, cluster, "a")).because:
                await asyncio.sleep(0.02)
        with pytest.raises(PlaceTakenError, match="it is cordoned in Kubernetes"):
            await desk.engine.start(gang)
        await clear(desk, cluster, gang, before)


async def test_a_node_whose_last_place_for_a_pod_others_took_since_it_was_decided_gets_none(cluster):
    before = await belongings(cluster)
    gang = gang_on(cluster, "a")
    async with kubelets(cluster, "a", pods=2), engine_on(cluster) as desk:
        await desk.until_caught_up()
        await made(cluster, "pods", pod("others", nodeName=node_name(cluster, "a")))
        async with asyncio.timeout(45):
            while (await seen(desk, cluster, "a")).slots != 1:
                await asyncio.sleep(0.02)
        with pytest.raises(PlaceTakenError, match="others have taken what it needs on node"):
            await desk.engine.start(gang)
        await cluster.api.delete(cluster.path("pods", "others"), {"gracePeriodSeconds": 0})
        await clear(desk, cluster, gang, before)


async def test_a_namespace_that_is_not_there_refuses_the_gang(served):
    gang = gang_on(served, "a")
    other = settings_for(served, namespace="nowhere")
    async with kubelets(served, "a"), engine_on(served, other) as desk:
        with pytest.raises(StartRefusedError, match="there is no namespace 'nowhere'"):
            await desk.engine.start(gang)


async def seen(desk: Bench, cluster: Cluster, name: str) -> NodeOffer:
    """The node as the engine sees it; a real cluster has others, too."""
    nodes = (await desk.engine.inventory()).nodes
    return next(node for node in nodes if node.name == node_name(cluster, name))


def scripted(by_index: Callable[[int], PodScript]) -> Callable[[dict], PodScript]:
    return lambda pod: by_index(int(pod["metadata"]["name"].rpartition("-")[2]))


def waited(desk: Bench) -> list[str]:
    return [each.reason for each in desk.seen if isinstance(each, ReplicaWaiting)]


async def with_quota(cluster: Cluster, pods: int) -> None:
    body = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": str(pods)}}}
    answer = await cluster.api.post(cluster.path("resourcequotas"), body)
    assert answer.status == 201, answer.message
    async with asyncio.timeout(45):
        path = cluster.path("resourcequotas", "few")
        while cluster.server is None and not (await cluster.api.get(path)).body.get("status", {}).get("used"):
            await asyncio.sleep(0.05)
