"""Jobs in two real clusters by `spec.cluster`, and the API server of one of them is killed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from shared import events as ev
from shared.bus import Bus
from shared.catalog import CatalogStore, Pool
from shared.jobs import JobState
from tests.support.http import calling
from tests.support.kubernetes.clusters import Cluster
from tests.support.kubernetes.engines import COLLECTED_S, belongings, kubelets, until_left
from tests.support.kubernetes.job_desk import IMAGE, LABEL, all_is_shipped
from tests.support.kubernetes.pairs import NAMES, NO_SECOND, a_pair, away, joined_kubeconfig, kinds_of_pairs
from tests.support.nats import NatsServer
from tests.support.scheduling import Rig
from tests.support.services import eventually, running

LIMIT_S = 60

pytestmark = [
    pytest.mark.skipif("clusters" not in kinds_of_pairs(), reason=NO_SECOND),
    pytest.mark.timeout(300),
]


@pytest.fixture
async def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[dict[str, Cluster]]:
    """Both, each with a node of the test's own."""
    async with AsyncExitStack() as stack:
        found = await stack.enter_async_context(a_pair("clusters", tmp_path))
        for cluster in found.values():
            labels = {LABEL: cluster.namespace}
            await stack.enter_async_context(kubelets(cluster, "0", labels=labels))
        monkeypatch.setenv("KUBECONFIG", str(joined_kubeconfig(found, tmp_path / "joined")))
        yield found


@pytest.fixture
async def rig(pair: dict[str, Cluster], nats_server: NatsServer, bus: Bus, tmp_path: Path) -> AsyncIterator[Rig]:
    """With a pool of each of these nodes, and agents that have shipped all."""
    nodes = {"labels": {LABEL: pair["main"].namespace}}
    for name in NAMES:
        metadata, spec = {"name": f"mine-{name}"}, {"type": "dedicated", "cluster": name, "nodes": nodes}
        pool = {"apiVersion": "trainmaster/v1", "kind": "Pool", "metadata": metadata, "spec": spec}
        await CatalogStore(bus).put(Pool.model_validate(pool), expected=0)
    async with all_is_shipped(bus):
        yield Rig(nats_server, tmp_path / "home", bus)


def settings(pair: dict[str, Cluster]) -> dict[str, Any]:
    contexts = "main=at-main,east=at-east"
    return {"engine": "kubernetes", "kube_contexts": contexts, "kube_namespace": pair["main"].namespace}


async def submit(rig: Rig, cluster: str) -> str:
    resolved = {"pool_name": f"mine-{cluster}", "cpu_millis": 50}
    return await rig.submit(replicas=3, resolved_image=IMAGE, resolved=resolved, resolved_cluster=cluster)


async def stopped(rig: Rig, *jobs: str) -> None:
    for job in jobs:
        await rig.append(ev.StopRequested(by="u-ada", reason="enough"), job)
        ended = await rig.until(job, JobState.STOPPED, limit_s=LIMIT_S)
        assert [attempt.number for attempt in ended.attempts] == [1]
        assert {replica.exit.cause for replica in ended.attempt.replicas.values()} == {"stopped"}


async def test_jobs_of_the_other_cluster_go_on_and_those_of_the_killed_one_are_adopted_when_it_is_back(
    pair: dict[str, Cluster], rig: Rig
):
    before = [await belongings(cluster) for cluster in pair.values()]
    async with running(await rig.scheduler(**settings(pair))):
        here, there = [await submit(rig, cluster) for cluster in NAMES]
        for job in (here, there):
            await rig.until(job, JobState.RUNNING, limit_s=LIMIT_S)
    async with away(pair["east"]):
        service = await rig.scheduler(**settings(pair))
        async with running(service), calling(service.app, rig.token()) as http:
            another = await submit(rig, "main")
            await rig.until(another, JobState.RUNNING, limit_s=LIMIT_S)
            await stopped(rig, here)

            async def told() -> bool | None:
                return "cluster east does not answer" in (await http.get(f"/v1/queue/{there}")).text or None

            await eventually(told, LIMIT_S)
            assert (await rig.job(there)).state is JobState.RUNNING
    async with running(await rig.scheduler(**settings(pair))):
        await stopped(rig, there, another)
        for cluster, count in zip(pair.values(), before, strict=True):
            await until_left(cluster, count, COLLECTED_S)
