"""What goes wrong around whole jobs: schedulers as processes that are killed, pods that others remove, quotas.

Each job goes on whole or ends whole, says why in words, and leaves nothing in its namespace.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared import events as ev
from shared.bus import Bus
from shared.jobs import JobState
from shared.kubernetes.names import INDEX_LABEL
from tests.support.kubernetes.clusters import Cluster, a_cluster, kinds_of_clusters
from tests.support.kubernetes.engines import belongings, until_left
from tests.support.kubernetes.job_desk import JobDesk, job_desk
from tests.support.kubernetes.meddling import Meddling, delete, delete_by_force, evict
from tests.support.kubernetes.proxy import PODS, proxied
from tests.support.modules import Modules, modules_in, scheduler_environment
from tests.support.nats import NatsServer
from tests.support.scheduling import Rig
from tests.support.services import eventually, running

MANY = 100
SOME = 40
"""Pods that a scheduler has made when it is killed."""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(params=kinds_of_clusters())
async def cluster(request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    async with a_cluster(request.param, tmp_path) as made:
        monkeypatch.setenv("KUBECONFIG", str(made.kubeconfig))
        yield made


@pytest.fixture
async def desk(cluster: Cluster, nats_server: NatsServer, bus: Bus, tmp_path: Path) -> AsyncIterator[JobDesk]:
    async with job_desk(Rig(nats_server, tmp_path / "home", bus), cluster, "a", "b") as found:
        yield found


def start_scheduler(modules: Modules, desk: JobDesk, name: str, kubeconfig: Path) -> subprocess.Popen[bytes]:
    environment = scheduler_environment(desk.rig, modules.directory, name)
    chosen = {f"TRAINMASTER_{key.upper()}": value for key, value in desk.settings.items()}
    return modules.start(name, "services.scheduler", **environment, **chosen, KUBECONFIG=str(kubeconfig))


async def test_a_scheduler_that_is_killed_while_it_makes_100_pods_is_followed_by_one_that_makes_the_rest(
    desk: JobDesk, tmp_path: Path
):
    before = await belongings(desk.cluster)
    async with proxied(desk.cluster, tmp_path) as (far, proxy):
        proxy.hold(PODS, after=SOME)
        with modules_in(tmp_path) as modules:
            first = start_scheduler(modules, desk, "first", far.kubeconfig)
            await modules.said("first", "leadership_taken", 60)
            start_scheduler(modules, desk, "second", desk.cluster.kubeconfig)
            await modules.said("second", "readmodel_caught_up", 60)
            job = await desk.submit(MANY)
            made = await some_made(desk, job)
            first.kill()
            await desk.rig.until(job, JobState.RUNNING, limit_s=60)
            assert made < (found := await uids(desk, job))
            assert len(found) == MANY
            await desk.rig.append(ev.StopRequested(by="u-ada", reason="enough"), job)
            stopped = await desk.rig.until(job, JobState.STOPPED, limit_s=60)
            assert [attempt.number for attempt in stopped.attempts] == [1]
            assert {replica.exit.cause for replica in stopped.attempt.replicas.values()} == {"stopped"}
            await until_left(desk.cluster, before)


async def some_made(desk: JobDesk, job: str) -> set[str]:
    """Those that the first scheduler makes."""
    async with asyncio.timeout(60):
        while len(found := await uids(desk, job)) < SOME:
            await asyncio.sleep(0.02)
    return found


async def uids(desk: JobDesk, job: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in await desk.pods(job)}


# --- what others do to pods


MEDDLINGS: dict[Meddling, str] = {
    delete: "somebody deleted its pod",
    delete_by_force: "its pod vanished: somebody deleted its pod",
    evict: "it was evicted through the API",
}


@pytest.mark.parametrize("cluster", ["cluster"], indirect=True)
async def test_jobs_whose_pods_others_remove_or_refuse_end_whole_and_say_what_was_done(desk: JobDesk):
    await few_pods(desk.cluster, 3 * len(MEDDLINGS) + 2)
    before = await belongings(desk.cluster)
    async with running(await desk.rig.scheduler(**desk.settings)):
        jobs = [await desk.running(3) for _ in MEDDLINGS]
        refused = await desk.over(await desk.submit(6))
        assert "exceeded quota: few" in refused.ended.message
        for meddle, job in zip(MEDDLINGS, jobs, strict=True):
            pods = {pod["metadata"]["labels"][INDEX_LABEL]: pod["metadata"]["name"] for pod in await desk.pods(job)}
            await meddle(desk.cluster, pods["1"])
        for told, job in zip(MEDDLINGS.values(), jobs, strict=True):
            attempt = await desk.over(job)
            assert attempt.ended.message.startswith("replica worker-1 on node ")
            assert f" was lost: {told}" in attempt.ended.message
            causes = [replica.exit.cause for replica in attempt.replicas.values()]
            assert sorted(causes) == ["lost", "stopped", "stopped"]
        await until_left(desk.cluster, before)


async def few_pods(cluster: Cluster, pods: int) -> None:
    body = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": str(pods)}}}
    assert (await cluster.api.post(cluster.path("resourcequotas"), body)).status == 201

    async def is_counted() -> bool | None:
        quota = (await cluster.api.get(cluster.path("resourcequotas", "few"))).body
        return cluster.server is not None or bool(quota.get("status", {}).get("used")) or None

    await eventually(is_counted, 20)
