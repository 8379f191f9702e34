"""Several engines as one: calls go where the gang is, reports come together, and no cluster waits for another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime

import pytest

from services.scheduler.engines.clusters import RETRY_PAUSE_S, ClusterEngines
from services.scheduler.ports.engine import Inventory, NodeOffer, StartRefusedError
from services.scheduler.ports.gangs import GangStart
from services.scheduler.ports.reports import CaughtUp, Observation, ReplicaRef, ReplicaStarted
from services.scheduler.ports.sandboxes import ExecRefusedError, KeptSandbox
from shared.clock import ManualClock
from shared.errors import UnavailableError

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Cluster:
    """An engine that notes what it is asked, and reports what a test says."""

    lays_data = False

    def __init__(self, *gangs: str) -> None:
        self.gangs = set(gangs)
        self.asked: list[str] = []
        self.reports: asyncio.Queue[Observation | Exception] = asyncio.Queue()

    async def inventory(self) -> Inventory:
        return Inventory((NodeOffer(f"n-{id(self)}", "node", 1, 1),))

    async def start(self, gang: GangStart) -> None:
        self.asked.append(f"start {gang.id}")
        self.gangs.add(gang.id)

    async def observe(self) -> AsyncIterator[Observation]:
        self.asked.append("observe")
        while True:
            report = await self.reports.get()
            if isinstance(report, Exception):
                raise report
            yield report

    async def stop(self, gang_id: str, grace_s: float) -> bool:
        self.asked.append(f"stop {gang_id}")
        return gang_id in self.gangs

    async def forget(self, gang_id: str, keep_until: datetime | None = None) -> None:
        self.asked.append(f"forget {gang_id}")

    async def execute(self, gang_id: str, role: str, index: int, command: tuple[str, ...], limit_s: float) -> str:
        if gang_id not in self.gangs:
            raise ExecRefusedError(f"{gang_id} does not run")
        return f"run in {gang_id}"

    def kept(self, job: str) -> tuple[KeptSandbox, ...]:
        return (KeptSandbox(1, "m", f"/{id(self)}", NOW),)

    def holdups(self, gang_id: str) -> Mapping[str, str]:
        return {"worker-0": "no image"} if gang_id in self.gangs else {}


class Scene:
    """Two clusters, and a reader of their reports."""

    def __init__(self) -> None:
        self.main, self.east = Cluster("tj-a-1"), Cluster("tj-b-1")
        self.clock = ManualClock()
        self.engines = ClusterEngines({"main": self.main, "east": self.east}, self.clock)
        self.stream = self.engines.observe()

    async def next(self) -> Observation:
        async with asyncio.timeout(45):
            return await anext(self.stream)

    async def both_catch_up(self) -> None:
        for cluster in (self.main, self.east):
            cluster.reports.put_nowait(CaughtUp(frozenset(cluster.gangs)))
        assert {(await self.next()).cluster for _ in range(2)} == {"main", "east"}


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    async with aclosing(scene.stream):
        yield scene


def gang(job: str, cluster: str) -> GangStart:
    return GangStart(job, 1, "u-a", "default", cluster, ())


def started(job: str) -> ReplicaStarted:
    return ReplicaStarted(ReplicaRef(job, 1, "worker", 0, "n-1"), NOW)


async def test_a_gang_is_started_in_its_cluster_and_stopped_there(scene: Scene):
    await scene.engines.start(gang("tj-c", "east"))
    assert await scene.engines.stop("tj-c-1", 5)
    await scene.engines.forget("tj-c-1")
    assert scene.east.asked == ["start tj-c-1", "stop tj-c-1", "forget tj-c-1"]
    assert scene.main.asked == []


async def test_a_cluster_that_is_not_there_any_more_refuses(scene: Scene):
    with pytest.raises(StartRefusedError, match="no cluster 'west' any more; it has: main, east"):
        await scene.engines.start(gang("tj-c", "west"))


async def test_reports_of_all_clusters_are_one_stream_and_tell_where_gangs_are(scene: Scene):
    await scene.both_catch_up()
    scene.east.reports.put_nowait(started("tj-d"))
    assert await scene.next() == started("tj-d")
    assert await scene.engines.stop("tj-a-1", 5)
    assert not await scene.engines.stop("tj-d-1", 5)
    assert (scene.main.asked, scene.east.asked) == (["observe", "stop tj-a-1"], ["observe", "stop tj-d-1"])


async def test_a_cluster_that_says_nothing_keeps_no_other_from_being_heard(scene: Scene):
    scene.main.reports.put_nowait(CaughtUp(frozenset({"tj-a-1"})))
    assert await scene.next() == CaughtUp(frozenset({"tj-a-1"}), "main")
    assert not await scene.engines.stop("tj-unknown-1", 5)
    assert scene.east.asked == ["observe"]


async def test_a_stream_that_breaks_is_begun_anew_and_the_others_go_on(scene: Scene):
    await scene.both_catch_up()
    scene.east.reports.put_nowait(UnavailableError("cut"))
    scene.main.reports.put_nowait(started("tj-a"))
    assert await scene.next() == started("tj-a")
    await scene.clock.advance(RETRY_PAUSE_S)
    scene.east.reports.put_nowait(CaughtUp(frozenset()))
    assert await scene.next() == CaughtUp(frozenset(), "east")
    assert scene.east.asked == ["observe", "observe"]
    assert scene.main.asked == ["observe"]


async def test_commands_run_where_the_gang_is(scene: Scene):
    await scene.both_catch_up()
    assert await scene.engines.execute("tj-b-1", "worker", 0, ("ls",), 1) == "run in tj-b-1"


async def test_who_follows_no_reports_runs_commands_and_knows_what_replicas_wait_for_too(scene: Scene):
    assert await scene.engines.execute("tj-b-1", "worker", 0, ("ls",), 1) == "run in tj-b-1"
    assert scene.engines.holdups("tj-b-1") == {"worker-0": "no image"}
    with pytest.raises(ExecRefusedError, match="may not answer"):
        await scene.engines.execute("tj-c-1", "worker", 0, ("ls",), 1)


async def test_what_the_only_cluster_says_of_a_command_is_told():
    with pytest.raises(ExecRefusedError, match="tj-c-1 does not run"):
        await ClusterEngines({"main": Cluster()}, ManualClock()).execute("tj-c-1", "worker", 0, ("ls",), 1)


async def test_what_clusters_hold_and_offer_is_told_together(scene: Scene):
    assert len(scene.engines.kept("tj-a")) == 2
    assert len((await scene.engines.inventory()).nodes) == 2
    assert scene.engines.clusters == ("main", "east")
    assert not scene.engines.lays_data


async def test_one_engine_speaks_for_everything():
    cluster = Cluster()
    engines = ClusterEngines({"prod": cluster}, ManualClock())
    cluster.reports.put_nowait(CaughtUp(frozenset()))
    async with aclosing(engines.observe()) as stream:
        assert await anext(stream) == CaughtUp(frozenset())
