"""Two Kubernetes clusters under one scheduler's settings: each gang in its own, and one that is away stops no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from services.scheduler.engines.clusters import ClusterEngines
from services.scheduler.engines.opening import open_engines
from services.scheduler.ports.gangs import GangStart, ReplicaStart
from services.scheduler.settings import SchedulerSettings
from shared.bus import Bus
from shared.clock import SystemClock
from shared.errors import UnavailableError
from shared.ids import new_job_id
from shared.kubernetes.names import GANG_LABEL, node_id
from tests.support.kubernetes.clusters import Cluster, a_cluster
from tests.support.kubernetes.kubelet import SimulatedKubelet
from tests.support.kubernetes.nodes import NodeSpec
from tests.support.local_engine import Bench

NAMESPACE = "trainmaster-jobs"


@dataclass
class Two:
    """The clusters by name, and the settings that name them."""

    clusters: dict[str, Cluster]
    settings: SchedulerSettings

    async def pods(self, cluster: str, gang: GangStart) -> int:
        answer = await self.clusters[cluster].api.get(
            f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=f"{GANG_LABEL}={gang.id}"
        )
        return len(answer.body["items"])

    def server(self, cluster: str):
        server = self.clusters[cluster].server
        assert server is not None
        return server


@pytest.fixture
async def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Two]:
    async with AsyncExitStack() as stack:
        found = {}
        for name in ("main", "east"):
            (tmp_path / name).mkdir()
            found[name] = await stack.enter_async_context(a_cluster("test server", tmp_path / name))
            await found[name].api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            await stack.enter_async_context(SimulatedKubelet(found[name].api, [NodeSpec("node-0")]))
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(_joined(found)))
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        contexts = "main=at-main,east=at-east"
        given = {"engine": "kubernetes", "kube_contexts": contexts, "kube_image": "registry.example/tm:1"}
        yield Two(found, SchedulerSettings.model_validate({**given, "home": tmp_path / "home"}))


def _joined(clusters: dict[str, Cluster]) -> dict:
    """One kubeconfig with a context for each cluster."""
    joined = {"apiVersion": "v1", "kind": "Config", "current-context": "at-main"}
    users = [{"name": "me", "user": {"token": "t"}}]
    urls = {name: cluster.api.url for name, cluster in clusters.items()}
    entries = [{"name": name, "cluster": {"server": url}} for name, url in urls.items()]
    contexts = [{"name": f"at-{name}", "context": {"cluster": name, "user": "me"}} for name in urls]
    return {**joined, "clusters": entries, "users": users, "contexts": contexts}


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


def gang_in(cluster: str) -> GangStart:
    replica = ReplicaStart(
        "worker", 0, node_id(cluster, "node-0"), "sleep 1000", env={}, memory_bytes=1 << 26, cpu_m=100
    )
    parts = {"image": "registry.example/train:1", "files": {"hostfile": ""}}
    return GangStart(new_job_id(), 1, "u-me", "default", cluster, (replica,), **parts)


async def test_each_gang_runs_in_its_cluster_and_nodes_of_one_name_are_two(two: Two, bus: Bus):
    here, there = gang_in("main"), gang_in("east")
    async with desk_of(two, bus) as desk:
        nodes = (await desk.engine.inventory()).nodes
        assert [node.name for node in nodes] == ["node-0", "node-0"]
        assert len({node.id for node in nodes}) == 2
        assert {node.facts["machine"] for node in nodes} == {"main.node-0", "east.node-0"}
        for gang in (here, there):
            await desk.engine.start(gang)
            await desk.started(gang)
        assert [await two.pods(cluster, there) for cluster in ("main", "east")] == [0, 1]
        assert await desk.engine.stop(there.id, 5)
        assert [end.cause for end in await desk.exits(there)] == ["stopped"]
        assert not desk.ids() & {f"{here.replica_id(here.replicas[0])}/exited"}


async def test_a_cluster_that_is_away_stops_no_other_and_keeps_its_gangs(two: Two, bus: Bus):
    here, there = gang_in("main"), gang_in("east")
    async with desk_of(two, bus) as desk:
        await desk.engine.start(there)
        await desk.started(there)
    async with two.server("east").away(), desk_of(two, bus) as desk:
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
