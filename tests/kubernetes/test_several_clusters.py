"""Two Kubernetes clusters under one scheduler's settings: each gang in its own, and one that is away stops no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from services.scheduler.engines.clusters import ClusterEngines
from services.scheduler.engines.opening import open_engines
from services.scheduler.ports.gangs import GangStart, ReplicaStart
from services.scheduler.settings import SchedulerSettings
from shared.bus import Bus
from shared.clock import SystemClock
from shared.errors import UnavailableError
from shared.ids import new_job_id
from shared.kubernetes.names import GANG_LABEL, node_id
from tests.support.kubernetes.clusters import Cluster
from tests.support.kubernetes.engines import kubelets, node_name
from tests.support.kubernetes.pairs import a_pair, away, joined_kubeconfig, kinds_of_pairs
from tests.support.local_engine import Bench


@dataclass
class Two:
    """The clusters by name, and the settings that name them."""

    clusters: dict[str, Cluster]
    settings: SchedulerSettings

    async def pods(self, cluster: str, gang: GangStart) -> int:
        there = self.clusters[cluster]
        answer = await there.api.get(there.path("pods"), labelSelector=f"{GANG_LABEL}={gang.id}")
        return len(answer.body["items"])


@pytest.fixture(params=kinds_of_pairs())
async def two(request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Two]:
    async with AsyncExitStack() as stack:
        found = await stack.enter_async_context(a_pair(request.param, tmp_path))
        for cluster in found.values():
            await stack.enter_async_context(kubelets(cluster, "0"))
        monkeypatch.setenv("KUBECONFIG", str(joined_kubeconfig(found, tmp_path / "joined")))
        contexts = "main=at-main,east=at-east"
        given = {"engine": "kubernetes", "kube_contexts": contexts, "kube_image": "registry.example/tm:1"}
        given |= {"kube_namespace": found["main"].namespace, "home": tmp_path / "home"}
        yield Two(found, SchedulerSettings.model_validate(given))


@asynccontextmanager
async def desk_of(two: Two, bus: Bus) -> AsyncIterator[Bench]:
    opened = await open_engines(two.settings, bus, SystemClock())
    desk = Bench(ClusterEngines(opened.engines, SystemClock()))
    watching = asyncio.create_task(desk.watch())
    try:
        yield desk
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await opened.close()


def gang_in(two: Two, cluster: str) -> GangStart:
    node = node_id(cluster, node_name(two.clusters[cluster], "0"))
    replica = ReplicaStart("worker", 0, node, "sleep 1000", env={}, memory_bytes=1 << 26, cpu_m=100)
    parts = {"image": "registry.example/train:1", "files": {"hostfile": ""}}
    return GangStart(new_job_id(), 1, "u-me", "default", cluster, (replica,), **parts)


async def test_each_gang_runs_in_its_cluster_and_nodes_of_one_name_are_two(two: Two, bus: Bus):
    here, there = gang_in(two, "main"), gang_in(two, "east")
    async with desk_of(two, bus) as desk:
        name = node_name(two.clusters["main"], "0")
        nodes = [node for node in (await desk.engine.inventory()).nodes if node.name == name]
        assert len({node.id for node in nodes}) == len(nodes) == 2
        assert {node.facts["machine"] for node in nodes} == {f"main.{name}", f"east.{name}"}
        for gang in (here, there):
            await desk.engine.start(gang)
            await desk.started(gang)
        assert [await two.pods(cluster, there) for cluster in ("main", "east")] == [0, 1]
        assert await desk.engine.stop(there.id, 5)
        assert [end.cause for end in await desk.exits(there)] == ["stopped"]
        assert not desk.ids() & {f"{here.replica_id(here.replicas[0])}/exited"}


async def test_a_cluster_that_is_away_stops_no_other_and_keeps_its_gangs(two: Two, bus: Bus):
    here, there = gang_in(two, "main"), gang_in(two, "east")
    async with desk_of(two, bus) as desk:
        await desk.engine.start(there)
        await desk.started(there)
    async with away(two.clusters["east"]), desk_of(two, bus) as desk:
        await desk.engine.start(here)
        await desk.started(here)
        assert not any(each.startswith(there.id) for each in desk.ids())
    async with desk_of(two, bus) as desk:
        await desk.started(there)
        assert desk.starts(there) == 1
        assert not any(each.endswith("/exited") for each in desk.ids())


async def test_a_context_that_there_is_not_keeps_the_scheduler_from_starting(two: Two, bus: Bus):
    wrong = two.settings.model_copy(update={"kube_contexts": "main=at-main,west=at-west"})
    with pytest.raises(UnavailableError, match="context 'at-west'"):
        await open_engines(wrong, bus, SystemClock())
