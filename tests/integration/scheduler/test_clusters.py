"""Two simulated clusters under one scheduler: jobs run where they belong, and one that is away stops nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from services.scheduler import bootstrap
from services.scheduler.control import controller, inventory
from services.scheduler.ports.engine import Inventory
from services.scheduler.ports.reports import Observation
from shared import events as ev
from shared.jobs import JobState
from tests.support.scheduling import Rig
from tests.support.services import eventually
from tests.support.simulated_api import api
from tests.support.simulated_engine import SimulatedEngine
from tests.support.specs import small_job_document


class Distant(SimulatedEngine):
    """A cluster that may be away: then it answers nothing."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.there = asyncio.Event()
        self.there.set()

    async def inventory(self) -> Inventory:
        await self.there.wait()
        return await super().inventory()

    async def observe(self) -> AsyncIterator[Observation]:
        await self.there.wait()
        async for observation in super().observe():
            await self.there.wait()
            yield observation


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "REFRESH_S", 0.05)
    monkeypatch.setattr(controller, "CATCH_UP_S", 0.2)
    monkeypatch.setattr(bootstrap, "INVENTORY_S", 0.2)


@pytest.fixture
def main(tmp_path: Path) -> SimulatedEngine:
    made = SimulatedEngine(tmp_path / "main")
    made.offer("node-0")
    return made


@pytest.fixture
def east(tmp_path: Path) -> Distant:
    made = Distant(tmp_path / "east")
    made.offer("east-0", "east-1")
    return made


async def until_known(users: dict[str, httpx.AsyncClient]) -> dict[str, str]:
    """The clusters of the pools, once both clusters have theirs."""

    async def look() -> dict[str, str] | None:
        pools = (await users["ada"].get("/v1/pools")).json()["items"]
        found = {pool["metadata"]["name"]: pool["spec"].get("cluster", "main") for pool in pools}
        return found if len(found) == 2 else None

    return await eventually(look)


IN_EAST = {"resolved": {"pool_name": "public-east"}, "resolved_cluster": "east"}


async def test_each_cluster_gets_a_pool_of_its_own_and_jobs_run_in_theirs(
    rig: Rig, main: SimulatedEngine, east: Distant
):
    async with api(rig, main, {"east": east}) as users:
        assert await until_known(users) == {"public": "main", "public-east": "east"}
        types = (await users["ada"].get("/v1/instance-types/cpu-tiny")).json()
        assert types["spec"]["pools"] == ["public", "public-east"]
        nodes = (await users["ada"].get("/v1/nodes")).json()["items"]
        assert {node["metadata"]["name"]: node["spec"]["cluster"] for node in nodes} == {
            "node-0": "main",
            "east-0": "east",
            "east-1": "east",
        }
        clusters = (await users["ada"].get("/v1/clusters")).json()["items"]
        assert [(each["metadata"]["name"], each["spec"]["first"], each["status"]["nodes"]) for each in clusters] == [
            ("main", True, 1),
            ("east", False, 2),
        ]
        assert (await users["ada"].get("/v1/clusters/east")).json()["status"]["ready"] == 2
        assert (await users["ada"].get("/v1/clusters/west")).status_code == 404
        here, there = await rig.submit(name="here"), await rig.submit(name="there", **IN_EAST)
        placed = [(await rig.until(job, JobState.RUNNING)).attempt.placement for job in (here, there)]
        assert [placement.cluster for placement in placed] == ["main", "east"]
        assert placed[1].roles[0].nodes[0].startswith("n-east-")
        assert [(engine.directory / f"{there}-1").exists() for engine in (main, east)] == [False, True]
        await rig.append(ev.StopRequested(by="ada"), there)
        await rig.until(there, JobState.STOPPED)


async def test_a_plan_is_made_in_the_jobs_cluster_and_says_which_clusters_there_are(
    rig: Rig, main: SimulatedEngine, east: Distant
):
    async with api(rig, main, {"east": east}) as users:
        await until_known(users)
        document = small_job_document()
        document["spec"]["cluster"] = "east"
        document["spec"]["roles"][0]["instanceType"] = "cpu-tiny"
        plan = (await users["ada"].post("/v1/plans", json=document)).json()
        assert plan["cluster"] == "east"
        assert plan["placement"][0]["nodes"][0]["node"].startswith("east-")
        document["spec"]["cluster"] = "west"
        refused = (await users["ada"].post("/v1/plans", json=document)).json()
        told = [(each["pointer"], each["code"], each["message"]) for each in refused["errors"]]
        assert told == [("/spec/cluster", "unknown-cluster", "there is no cluster 'west'; there is: 'east', 'main'")]


async def test_a_cluster_that_is_away_at_the_start_keeps_its_gangs_and_stops_nobody(
    rig: Rig, main: SimulatedEngine, east: Distant
):
    async with api(rig, main, {"east": east}):
        there = await rig.submit(name="there", **IN_EAST)
        await rig.until(there, JobState.RUNNING)
    east.there.clear()
    async with api(rig, main, {"east": east}) as users:
        here = await rig.submit(name="here")
        await rig.until(here, JobState.RUNNING)
        assert (await rig.job(there)).state is JobState.RUNNING
        assert (await users["ada"].get("/v1/nodes/east-0")).json()["status"]["state"] == "Lost"

        async def told() -> str | None:
            explained = (await users["ada"].get(f"/v1/queue/{there}")).json()
            return explained["summary"] if "cluster east does not answer" in explained["summary"] else None

        await eventually(told)
        await rig.append(ev.StopRequested(by="ada"), there)
        await asyncio.sleep(0.3)
        assert (await rig.job(there)).state is JobState.STOPPING
        east.there.set()
        await rig.until(there, JobState.STOPPED)
