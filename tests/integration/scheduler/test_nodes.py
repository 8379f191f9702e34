"""The life of nodes on a simulated cluster: orders of admins, verdicts of the diagnoser, losses, restarts."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from services.scheduler.control import inventory
from shared import events as ev
from shared.bus.streams import NODES
from shared.catalog import Cluster
from shared.jobs import JobState
from tests.support.jobs import START
from tests.support.scheduling import Rig
from tests.support.services import eventually
from tests.support.simulated_api import api
from tests.support.simulated_engine import SimulatedEngine

BIG = {"resolved": {"cpu_millis": 60_000}}


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "REFRESH_S", 0.05)


@pytest.fixture
def engine(tmp_path: Path) -> SimulatedEngine:
    made = SimulatedEngine(tmp_path / "cluster")
    made.offer("node-0", "node-1")
    return made


async def order(users: dict[str, httpx.AsyncClient], verb: str, name: str = "node-0") -> httpx.Response:
    return await users["root"].post(f"/v1/nodes/{name}/{verb}", json={"reason": f"{verb} for a test"})


async def status(users: dict[str, httpx.AsyncClient], name: str = "node-0") -> dict:
    response = await users["ada"].get(f"/v1/nodes/{name}")
    assert response.status_code == 200, response.text
    return response.json()["status"]


async def until_state(users: dict[str, httpx.AsyncClient], state: str, name: str = "node-0") -> dict:
    async def look() -> dict | None:
        found = await status(users, name)
        return found if found["state"] == state else None

    return await eventually(look)


async def judge(rig: Rig, health: str, node: str = "n-node-0") -> None:
    fact = ev.NodeJudged(cluster="main", node=node, health=health, reason="a wrong checksum", job="tj-a")
    event = ev.Event.of(fact, job=node, attempt=0, time=START, owner="", project="", part=health)
    await rig.bus.observe(event, subject=f"tm.node.{Cluster.id_of('main')}.{node}.judged")


async def test_a_drained_node_keeps_what_runs_and_gets_nothing_new_also_after_a_restart(
    rig: Rig, engine: SimulatedEngine
):
    async with api(rig, engine) as users:
        first = await rig.submit(name="first", **BIG)
        placed = await rig.until(first, JobState.RUNNING)
        name = placed.attempt.placement.roles[0].nodes[0].removeprefix("n-")
        other = "node-1" if name == "node-0" else "node-0"
        answer = await order(users, "drain", name)
        assert answer.json()["status"]["state"] == "Draining"
        second = await rig.submit(name="second", **BIG)
        moved = await rig.until(second, JobState.RUNNING)
        assert moved.attempt.placement.roles[0].nodes == (f"n-{other}",)
        third = await rig.submit(name="third", **BIG)
        assert [held["name"] for held in (await status(users, name))["jobs"]] == ["first"]
        assert (await rig.job(first)).state is JobState.RUNNING
    async with api(rig, engine) as users:
        found = await status(users, name)
        assert (found["state"], found["by"], found["reason"]) == ("Draining", "root", "drain for a test")
        assert (await rig.job(third)).state is JobState.QUEUED
        await rig.append(ev.StopRequested(by="ada"), first)
        await rig.until(first, JobState.STOPPED)
        assert (await rig.job(third)).state is JobState.QUEUED
        await order(users, "restore", name)
        await rig.until(third, JobState.RUNNING)


async def test_who_ordered_what_and_why_is_on_record_and_told_to_admins(rig: Rig, engine: SimulatedEngine):
    async with api(rig, engine) as users:
        assert (await order(users, "quarantine")).json()["status"]["state"] == "Quarantined"
        assert (await order(users, "quarantine")).status_code == 200
        assert (await order(users, "drain")).status_code == 409
        assert (await order(users, "restore")).json()["status"]["state"] == "Ready"

        async def told() -> list[tuple[str, str]] | None:
            items = (await users["root"].get("/v1/nodes/node-0/events")).json()["items"]
            changes = [item["data"] for item in items if item["type"] == "trainmaster.node.changed.v1"]
            return [(data["before"], data["state"]) for data in changes] if len(changes) == 2 else None

        assert await eventually(told) == [("Ready", "Quarantined"), ("Quarantined", "Ready")]
        items = (await users["root"].get("/v1/nodes/node-0/events")).json()["items"]
        marks = [item["data"] for item in items if item["type"] == "trainmaster.node.marked.v1"]
        assert [(data["wish"], data["by"], data["reason"]) for data in marks] == [
            ("Quarantined", "root", "quarantine for a test"),
            ("Ready", "root", "restore for a test"),
        ]
        assert (await users["ada"].get("/v1/nodes/node-0/events")).status_code == 403


@pytest.mark.parametrize("verb", ["drain", "quarantine", "restore"])
async def test_orders_are_for_admins_and_need_a_reason_and_a_node(rig: Rig, engine: SimulatedEngine, verb: str):
    async with api(rig, engine) as users:
        refused = await users["ada"].post(f"/v1/nodes/node-0/{verb}", json={"reason": "mine"})
        assert refused.status_code == 403
        for body in ({}, {"reason": "  "}, {"reason": "x", "colour": "red"}):
            answer = await users["root"].post(f"/v1/nodes/node-0/{verb}", json=body)
            assert answer.status_code == 422
        assert (await order(users, verb, "moon")).status_code == 404
        assert await rig.bus.history.messages(NODES, "tm.node.*.*.marked") == []


async def test_a_bad_node_is_quarantined_and_one_over_the_cap_is_announced_and_stays(rig: Rig, engine: SimulatedEngine):
    async with api(rig, engine) as users:
        await judge(rig, "suspect")
        await judge(rig, "bad")
        found = await until_state(users, "Quarantined")
        assert (found["by"], found["reason"]) == ("diagnoser", "a wrong checksum")
        await judge(rig, "bad", "n-node-1")

        async def withheld() -> dict | None:
            found = await status(users, "node-1")
            return found if found["quarantineWithheld"] else None

        assert (await eventually(withheld))["state"] == "Ready"
        metrics = (await users["root"].get("/metrics")).text
        assert "trainmaster_scheduler_withheld_quarantines 1.0" in metrics
        assert 'trainmaster_scheduler_nodes{state="Quarantined"} 1.0' in metrics

        async def announced() -> bool | None:
            last = await rig.bus.history.last_event("tm.node.*.n-node-1.changed", stream=NODES)
            return last.event.data.withheld if last else None

        assert await eventually(announced)
        forced = {"reason": "the machine is needed", "force": True}
        assert (await users["root"].post("/v1/nodes/node-0/restore", json=forced)).status_code == 200
        await until_state(users, "Quarantined", "node-1")
        last = await rig.bus.history.last_event("tm.node.*.n-node-0.marked", stream=NODES)
        assert (last.event.data.forced, last.event.data.by, last.event.data.reason) == (
            True,
            "root",
            "the machine is needed",
        )


async def test_a_bad_node_that_an_admin_restores_returns_when_it_passes(rig: Rig, engine: SimulatedEngine):
    async with api(rig, engine) as users:
        await judge(rig, "bad")
        await until_state(users, "Quarantined")
        for reason in ("a new fan", "a new board"):
            answer = await users["root"].post("/v1/nodes/node-0/restore", json={"reason": reason})
            found = answer.json()["status"]
            assert (found["state"], found["returning"]["reason"]) == ("Quarantined", reason)
        await judge(rig, "good")
        assert (await until_state(users, "Ready"))["returning"] is None


async def test_capacity_of_a_lost_node_comes_back_with_the_confirmed_end_of_what_ran_there(
    rig: Rig, engine: SimulatedEngine
):
    engine.offer("node-0")
    async with api(rig, engine) as users:
        first = await rig.submit(name="first", **BIG)
        await rig.until(first, JobState.RUNNING)
        engine.offer()
        lost = await until_state(users, "Lost")
        assert lost["free"]["cpu"] == "4"
        engine.offer("node-0")
        assert (await until_state(users, "Ready"))["free"]["cpu"] == "4"
        second = await rig.submit(name="second", **BIG)
        await rig.append(ev.StopRequested(by="ada"), first)
        ended = await rig.until(first, JobState.STOPPED)
        started = await rig.until(second, JobState.RUNNING)
        assert started.attempt.placed_at >= ended.attempt.ended_at
