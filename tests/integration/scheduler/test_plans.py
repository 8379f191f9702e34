"""What would become of a job, and why one waits or is where it is, on a simulated cluster."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from services.scheduler.control import inventory
from shared.catalog import CatalogWatch, Cluster
from shared.jobs import JobState
from tests.support.scheduling import Rig
from tests.support.services import eventually
from tests.support.simulated_api import api
from tests.support.simulated_engine import SimulatedEngine

JOB = {
    "apiVersion": "trainmaster/v1",
    "kind": "TrainingJob",
    "metadata": {"name": "planned"},
    "spec": {
        "image": "registry.example/x:1",
        "roles": [{"name": "worker", "replicas": 2, "instanceType": "cpu-large", "command": "true"}],
    },
}


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "REFRESH_S", 0.05)


@pytest.fixture
def engine(tmp_path: Path) -> SimulatedEngine:
    made = SimulatedEngine(tmp_path / "cluster")
    made.offer("node-0", cores=8, memory_gib=64)
    return made


async def planned(client: httpx.AsyncClient, **role) -> dict:
    roles = [JOB["spec"]["roles"][0] | role]
    response = await client.post("/v1/plans", json=JOB | {"spec": JOB["spec"] | {"roles": roles}})
    assert response.status_code == 200, response.text
    return response.json()


async def shapes_are_told(rig: Rig) -> None:
    catalog = CatalogWatch(rig.bus)

    async def told() -> bool | None:
        cluster = (await catalog.refresh()).get(Cluster, "main")
        return (cluster is not None and bool(cluster.spec.shapes) and bool(cluster.spec.shapes[0].pools)) or None

    await eventually(told)


async def test_a_job_that_would_start_is_told_where_and_at_what_price_and_is_not_submitted(
    rig: Rig, engine: SimulatedEngine
):
    async with api(rig, engine) as users:
        plan = await planned(users["ada"])
        assert (plan["valid"], plan["starts"], plan["pricePerHour"]) == (True, True, "0.32")
        (placed,) = plan["placement"]
        assert (placed["role"], placed["pool"], placed["gpus"]) == ("worker", "public", 0)
        assert placed["nodes"] == [{"node": "node-0", "replicas": 2}]
        assert placed["instanceType"].startswith("cpu-")
        assert "registry.example/x:1 is noted and not used" in plan["differences"][0]
        assert (await users["ada"].get("/v1/queue")).json()["items"] == []


async def test_a_job_that_would_wait_is_told_what_for_and_every_change_that_is_told_starts_it(
    rig: Rig, engine: SimulatedEngine
):
    async with api(rig, engine) as users:
        held = await rig.submit(resolved={"cpu_millis": 5000}, maxRunTime="1h", startTimeout="10m")
        await rig.until(held, JobState.RUNNING)
        plan = await planned(users["ada"], instanceType="cpu-medium", replicas=3)
        assert (plan["starts"], plan["placement"], plan["position"]) == (False, [], 1)
        (blocker,) = plan["blockers"]
        assert (blocker["resource"], blocker["needed"], blocker["available"]) == ("cpu", 6000, 3000)
        assert plan["held"][0]["by"][0]["job"] == held
        assert plan["expectedStartAt"] == plan["held"][0]["by"][0]["endsBy"]
        changes = {change["kind"]: change for change in plan["changes"]}
        assert (changes["replicas"]["to"], changes["type"]["to"]) == ("1", "cpu-small")
        for changed in ({"replicas": 1}, {"instanceType": "cpu-small"}):
            assert (await planned(users["ada"], **({"instanceType": "cpu-medium", "replicas": 3} | changed)))["starts"]


async def test_whoever_holds_what_is_named_to_those_alone_who_may_see_it(rig: Rig, engine: SimulatedEngine):
    async with api(rig, engine) as users:
        held = await rig.submit(resolved={"cpu_millis": 7000})
        await rig.until(held, JobState.RUNNING)
        plan = await planned(users["bob"])
        assert (plan["held"][0]["by"], plan["held"][0]["byOthers"]) == ([], 7000)


async def test_all_that_is_wrong_is_told_at_once_as_a_submission_would(rig: Rig, engine: SimulatedEngine):
    async with api(rig, engine) as users:
        roles = [{"name": "worker", "replicas": 0, "instanceType": "cpu-large", "command": "true"}]
        answer = await users["ada"].post("/v1/plans", json=JOB | {"spec": {"image": "x", "roles": roles, "sped": 1}})
        assert answer.status_code == 422
        assert {error["pointer"] for error in answer.json()["errors"]} == {"/spec/roles/0/replicas", "/spec/sped"}
        unknown = JOB | {"spec": JOB["spec"] | {"roles": [JOB["spec"]["roles"][0] | {"instanceType": "moon"}]}}
        errors = (await users["ada"].post("/v1/plans", json=unknown)).json()["errors"]
        assert [error["code"] for error in errors] == ["unknown-instance-type"]


async def test_what_can_never_fit_is_refused_with_the_largest_that_would(rig: Rig, engine: SimulatedEngine):
    async with api(rig, engine) as users:
        await shapes_are_told(rig)
        roles = [JOB["spec"]["roles"][0] | {"replicas": 3}]
        answer = await users["ada"].post("/v1/plans", json=JOB | {"spec": JOB["spec"] | {"roles": roles}})
        (error,) = answer.json()["errors"]
        assert (error["pointer"], error["code"]) == ("/spec/roles/0/replicas", "never-fits")
        assert error["message"].endswith("give at most 2")


async def test_a_cluster_without_nodes_takes_jobs_and_says_that_it_has_none(rig: Rig, engine: SimulatedEngine):
    engine.offer()
    async with api(rig, engine) as users:
        plan = await planned(users["ada"], instanceType="cpu-tiny")
        assert (plan["starts"], plan["suggestions"], plan["expectedStartAt"]) == (False, [], None)
        assert "pool 'public' has no node that role worker may use" in plan["summary"]


async def test_nodes_to_keep_off_that_are_not_there_are_warned_of_before_and_after_the_submission(
    rig: Rig, engine: SimulatedEngine
):
    async with api(rig, engine) as users:
        await rig.until(await rig.submit(name="first"), JobState.RUNNING)
        excluded = {**JOB["spec"], "excludeNodes": ["moon", "node-1", "n-moon"]}
        plan = (await users["ada"].post("/v1/plans", json=JOB | {"spec": excluded})).json()
        told = ["excludeNodes names no node that is known: moon, n-moon, node-1"]
        assert (plan["warnings"], plan["neverFits"]) == (told, False)
        held = await rig.submit(name="second", excludeNodes=["moon", "node-0"])

        async def told() -> dict | None:
            answer = await users["ada"].get(f"/v1/queue/{held}")
            return answer.json() if answer.status_code == 200 and answer.json()["blockers"] else None

        standing = await eventually(told)
        assert standing["warnings"] == ["excludeNodes names no node that is known: moon"]
        assert standing["neverFits"]


async def test_why_a_placed_job_is_where_it_is_is_told(rig: Rig, engine: SimulatedEngine):
    engine.offer("node-0", "node-1", "node-2", cores=8)
    async with api(rig, engine) as users:
        first = await rig.submit(name="first", resolved={"cpu_millis": 6000})
        await rig.until(first, JobState.RUNNING)
        second = await rig.submit(name="second", resolved={"cpu_millis": 1000})
        await rig.until(second, JobState.RUNNING)
        placement = (await users["ada"].get(f"/v1/queue/{second}")).json()["placement"]
        assert placement["why"] == (
            "on one node: 2 of the 2 others could hold it, too; the tightest fit, with room for 1 more replicas"
        )
