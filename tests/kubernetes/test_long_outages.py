"""Outages of a real cluster that take their time: its API server killed for a minute, nodes whose heartbeats end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from services.scheduler.ports.gangs import GangStart
from shared import events as ev
from shared.bus import Bus
from shared.ids import new_job_id
from shared.jobs import JobState
from shared.kubernetes.names import node_id
from shared.tasks import end
from tests.support.gangs import a_gang
from tests.support.http import calling
from tests.support.kubernetes.clusters import NO_CLUSTER, NO_NODE, Cluster, a_cluster, image_of_tests, real_kubeconfig
from tests.support.kubernetes.engines import (
    COLLECTED_S,
    belongings,
    engine_on,
    insist,
    node_name,
    pods_of,
    settings_for,
    until_left,
)
from tests.support.kubernetes.job_desk import JobDesk, job_desk
from tests.support.kubernetes.nodes import ready_condition
from tests.support.kubernetes.places import IMAGE, Place, a_place
from tests.support.kubernetes.proxy import PODS, proxied
from tests.support.kubernetes.server_process import (
    NOT_OURS,
    ServerProcess,
    halted_kubelet,
    kubelet_of,
    may_be_killed,
)
from tests.support.local_engine import Bench
from tests.support.nats import NatsServer
from tests.support.scheduling import Rig
from tests.support.services import eventually, running

AWAY_S = 60
BACK_S = 60
MANY = 100
LOST_AFTER_S = 10
HEARTBEAT_S = 5
NOTICED_S = 120
HEARTBEATS = "TRAINMASTER_TEST_NODE_LIFECYCLE"
NO_HEARTBEATS = f"{NO_CLUSTER}; and set {HEARTBEATS}=1 where its controllers look at the heartbeats of nodes"

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
async def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    async with a_cluster("cluster", tmp_path) as made:
        monkeypatch.setenv("KUBECONFIG", str(made.kubeconfig))
        yield made


@pytest.fixture
async def desk(cluster: Cluster, nats_server: NatsServer, bus: Bus, tmp_path: Path) -> AsyncIterator[JobDesk]:
    async with job_desk(Rig(nats_server, tmp_path / "home", bus), cluster, "a", "b") as found:
        yield found


@asynccontextmanager
async def scheduler(desk: JobDesk, **settings: object) -> AsyncIterator[httpx.AsyncClient]:
    """A scheduler that works, and a client of it."""
    service = await desk.rig.scheduler(**desk.settings, **settings)
    async with running(service), calling(service.app, desk.rig.token()) as http:
        yield http


@pytest.mark.skipif(not may_be_killed(real_kubeconfig()), reason=NOT_OURS)
async def test_a_server_that_is_killed_for_a_minute_while_jobs_run_and_are_made_ends_none(desk: JobDesk):
    before = await belongings(desk.cluster)
    server = ServerProcess(desk.cluster.kubeconfig)
    async with scheduler(desk) as http:
        steady = await desk.running(4)
        starting = await desk.submit(MANY)
        made = await some_made(desk, starting)
        server.kill()
        try:
            await asyncio.sleep(AWAY_S)
            assert "Kubernetes API server does not answer" in (await http.get(f"/v1/queue/{starting}")).text
            states = [(await desk.rig.job(job)).state for job in (steady, starting)]
            assert states == [JobState.RUNNING, JobState.STARTING]
        finally:
            server.start()
        await desk.rig.until(starting, JobState.RUNNING, limit_s=BACK_S)
        assert made <= (found := await uids(desk, starting))
        assert len(found) == MANY
        for job in (steady, starting):
            await desk.rig.append(ev.StopRequested(by="u-ada", reason="enough"), job)
            stopped = await desk.rig.until(job, JobState.STOPPED, limit_s=BACK_S)
            assert [attempt.number for attempt in stopped.attempts] == [1]
            assert {replica.exit.cause for replica in stopped.attempt.replicas.values()} == {"stopped"}
        await until_left(desk.cluster, before, COLLECTED_S)


@pytest.mark.skipif(not (real_kubeconfig() and os.environ.get(HEARTBEATS)), reason=NO_HEARTBEATS)
async def test_a_job_on_a_node_whose_heartbeats_end_is_ended_whole_and_says_so(desk: JobDesk):
    before = await belongings(desk.cluster)
    async with heartbeats(desk, "a"), scheduler(desk, kube_node_lost_after_s=LOST_AFTER_S):
        # Each takes more than half of a node, so that they are on two.
        job = await desk.running(2, cpu_millis=33_000)

        async def ended() -> ev.AttemptEnded | None:
            return (await desk.rig.job(job)).attempts[0].ended

        told = await eventually(ended, NOTICED_S)
        assert told.reason is ev.EndReason.PLATFORM
        assert f"its node {node_name(desk.cluster, 'b')} was lost" in told.message
        await until_left(desk.cluster, before)


@pytest.mark.skipif(not (image_of_tests() and os.environ.get(HEARTBEATS)), reason=f"{NO_NODE}; {NO_HEARTBEATS}")
async def test_a_gang_on_a_real_node_whose_kubelet_hangs_is_lost_and_nothing_of_it_runs_when_it_is_back(tmp_path: Path):
    async with a_place("real node", tmp_path) as place:
        if kubelet_of(place.node) is None:
            pytest.skip(NOT_OURS)
        before = await belongings(place.cluster)
        gang = on(place, *["sleep 1000"] * 2)
        settings = settings_for(place.cluster, lost_after_s=LOST_AFTER_S)
        async with engine_on(place.cluster, settings) as desk:
            await desk.engine.start(gang)
            await desk.started(gang)
            with halted_kubelet(place.node):
                async with asyncio.timeout(NOTICED_S):
                    await asyncio.gather(*(lost(desk, gang, index) for index in (0, 1)))
                await desk.engine.stop(gang.id, 1)
                await desk.engine.forget(gang.id)
            await until_left(place.cluster, before)
            exits = await desk.exits(gang)

        async def none_runs() -> bool | None:
            return not processes_with(gang.id) or None

        await eventually(none_runs, NOTICED_S)
    assert [each.cause for each in exits] == ["lost", "lost"]
    assert all(f"its node {place.node} was lost" in each.message for each in exits)


@pytest.mark.skipif(not (image_of_tests() and may_be_killed(real_kubeconfig())), reason=f"{NO_NODE}; {NOT_OURS}")
async def test_gangs_on_a_real_node_end_and_start_as_they_should_though_the_server_was_killed_for_a_minute(
    tmp_path: Path,
):
    async with a_place("real node", tmp_path) as place, proxied(place.cluster, tmp_path) as (far, proxy):
        before = await belongings(place.cluster)
        running, starting = on(place, "sleep 30; exit 4", "sleep 90; exit 5"), on(place, *["exit 6"] * 4)
        async with engine_on(far) as desk:
            await desk.engine.start(running)
            await desk.started(running)
            proxy.hold(PODS, after=2)
            start = asyncio.create_task(insist(desk, starting))
            await eventually(lambda: are_made(place, starting, 2), NOTICED_S)
            server = ServerProcess(place.cluster.kubeconfig)
            server.kill()
            async with proxy.away():
                await asyncio.sleep(AWAY_S)
                server.start()
            await start
            assert [each.code for each in await desk.exits(running)] == [4, 5]
            assert [each.code for each in await desk.exits(starting)] == [6] * 4
            for gang in (running, starting):
                await desk.engine.forget(gang.id)
            await until_left(place.cluster, before, COLLECTED_S)


async def are_made(place: Place, gang: GangStart, pods: int) -> bool | None:
    return len(await pods_of(place.cluster, gang)) >= pods or None


async def lost(desk: Bench, gang: GangStart, index: int) -> None:
    while f"{gang.replica_id(gang.replicas[index])}/exited" not in desk.ids():
        await asyncio.sleep(0.2)


def on(place: Place, *commands: str) -> GangStart:
    """A replica a command, with the gang's name in its environment."""
    made = replace(a_gang({"worker": len(commands)}, memory_bytes=64 << 20, image=IMAGE), job=new_job_id())
    own = {"node": node_id(place.cluster.namespace, place.node), "cpu_m": 50, "env": {"GANG_OF_TEST": made.id}}
    pairs = zip(made.replicas, commands, strict=True)
    return replace(made, replicas=tuple(replace(each, command=command, **own) for each, command in pairs))


def processes_with(gang: str) -> list[str]:
    """Processes of this machine that belong to the gang."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"GANG_OF_TEST={gang}" in environment.read_text(errors="replace"):
                found.append(environment.parent.name)
    return found


@asynccontextmanager
async def heartbeats(desk: JobDesk, *nodes: str) -> AsyncIterator[None]:
    """The kubelets of these nodes say that they are there."""

    async def beat() -> None:
        while True:
            for node in nodes:
                path = f"/api/v1/nodes/{node_name(desk.cluster, node)}/status"
                ready = ready_condition("True", "KubeletReady")
                await desk.cluster.api.patch(path, {"status": {"conditions": [ready]}})
            await asyncio.sleep(HEARTBEAT_S)

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        await end(beating)


async def some_made(desk: JobDesk, job: str) -> set[str]:
    async with asyncio.timeout(30):
        while not (found := await uids(desk, job)):
            await asyncio.sleep(0)
    return found


async def uids(desk: JobDesk, job: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in await desk.pods(job)}
