"""Pools, instance types, nodes and the queue over HTTP, as admins and users see them."""

from __future__ import annotations

import httpx
import pytest

from shared.jobs import JobState
from tests.support.http import calling
from tests.support.scheduling import Rig, users_of
from tests.support.services import eventually, running

TEAM = {
    "apiVersion": "trainmaster/v1",
    "kind": "Pool",
    "metadata": {"name": "team"},
    "spec": {"type": "dedicated", "members": {"users": ["ada"]}},
}
TYPE = {
    "apiVersion": "trainmaster/v1",
    "kind": "InstanceType",
    "metadata": {"name": "big"},
    "spec": {"cpu": 2, "memory": "2Gi", "pools": ["public", "team"], "pricePerHour": "0.5"},
}


def _changed(document: dict, **spec) -> dict:
    return document | {"spec": document["spec"] | spec}


def names(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return [item["metadata"]["name"] for item in response.json()["items"]]


async def test_a_new_platform_has_a_public_pool_and_instance_types_with_prices(rig: Rig):
    async with users_of(rig) as users:
        assert names(await users["bob"].get("/v1/pools")) == ["public"]
        listed = (await users["bob"].get("/v1/instance-types")).json()["items"]
        assert {"cpu-tiny", "cpu-small"} <= {item["metadata"]["name"] for item in listed}
        assert all(float(item["spec"]["pricePerHour"]) > 0 for item in listed)


async def test_a_dedicated_pool_is_seen_by_its_members_and_admins_alone(rig: Rig):
    async with users_of(rig) as users:
        assert (await users["root"].put("/v1/pools/team", json=TEAM)).status_code == 201
        assert names(await users["ada"].get("/v1/pools")) == ["public", "team"]
        assert names(await users["root"].get("/v1/pools")) == ["public", "team"]
        assert names(await users["bob"].get("/v1/pools")) == ["public"]
        assert (await users["bob"].get("/v1/pools/team")).status_code == 404


async def test_prices_are_shown_for_public_pools_alone(rig: Rig):
    async with users_of(rig) as users:
        await users["root"].put("/v1/pools/team", json=TEAM)
        await users["root"].put("/v1/instance-types/big", json=TYPE)
        dedicated = TYPE | {"metadata": {"name": "own"}, "spec": TYPE["spec"] | {"pools": ["team"]}}
        await users["root"].put("/v1/instance-types/own", json=dedicated)
        seen = {who: (await users[who].get("/v1/instance-types/big")).json()["spec"] for who in ("ada", "bob")}
        assert (seen["ada"]["pools"], seen["bob"]["pools"]) == (["public", "team"], ["public"])
        assert seen["bob"]["pricePerHour"] == "0.5"
        assert "pricePerHour" not in (await users["ada"].get("/v1/instance-types/own")).json()["spec"]
        assert (await users["bob"].get("/v1/instance-types/own")).status_code == 404


async def test_only_admins_change_pools_and_types(rig: Rig):
    async with users_of(rig) as users:
        for path, body in (("/v1/pools/team", TEAM), ("/v1/instance-types/big", TYPE)):
            assert (await users["ada"].put(path, json=body)).status_code == 403
            assert (await users["ada"].delete(path)).status_code == 403


@pytest.mark.parametrize(
    ("path", "body", "pointer", "code"),
    [
        ("/v1/pools/other", TEAM, "/metadata/name", "name-mismatch"),
        (
            "/v1/pools/team",
            TEAM | {"spec": {"cluster": "moon", "type": "dedicated"}},
            "/spec/cluster",
            "unknown-cluster",
        ),
        ("/v1/pools/team", TEAM | {"spec": {"type": "public"}}, "/spec/type", "second-public-pool"),
        ("/v1/pools/team", TEAM | {"spec": {"colour": "red"}}, "/spec/colour", "unknown-key"),
        (
            "/v1/instance-types/big",
            TYPE | {"spec": TYPE["spec"] | {"pools": ["moon"]}},
            "/spec/pools/0",
            "unknown-pool",
        ),
        ("/v1/instance-types/big", _changed(TYPE, cpu=-1), "/spec/cpu", "cpu-invalid"),
        ("/v1/instance-types/big", [1], "", "wrong-type"),
    ],
)
async def test_a_wrong_document_is_refused_with_place_and_code(rig: Rig, path, body, pointer, code):
    async with users_of(rig) as users:
        response = await users["root"].put(path, json=body)
        assert response.status_code == 422
        assert (pointer, code) in [(error["pointer"], error["code"]) for error in response.json()["errors"]]


async def test_a_change_over_a_stale_version_is_refused(rig: Rig):
    async with users_of(rig) as users:
        root = users["root"]
        made = await root.put("/v1/pools/team", json=TEAM)
        changed = TEAM | {"spec": TEAM["spec"] | {"queuePolicy": "fifo"}}
        assert (await root.put("/v1/pools/team", json=changed, headers={"If-Match": '"1"'})).status_code == 409
        done = await root.put("/v1/pools/team", json=changed, headers={"If-Match": made.headers["ETag"]})
        assert (done.status_code, done.json()["spec"]["queuePolicy"]) == (200, "fifo")
        assert done.json()["metadata"]["createdAt"] == made.json()["metadata"]["createdAt"]


async def test_a_pool_that_is_needed_is_not_deleted(rig: Rig):
    async with users_of(rig) as users:
        root = users["root"]
        await root.put("/v1/pools/team", json=TEAM)
        await root.put("/v1/instance-types/big", json=TYPE)
        assert (await root.delete("/v1/pools/team")).status_code == 409
        assert (await root.delete("/v1/instance-types/big")).status_code == 204
        assert (await root.delete("/v1/pools/team")).status_code == 204
        assert (await root.get("/v1/pools/team")).status_code == 404


async def test_a_deleted_default_does_not_come_back(rig: Rig):
    async with users_of(rig) as users:
        assert (await users["root"].delete("/v1/instance-types/cpu-tiny")).status_code == 204
    async with users_of(rig) as users:
        assert "cpu-tiny" not in names(await users["root"].get("/v1/instance-types"))


async def test_nodes_are_shown_with_what_is_free(rig: Rig):
    rig.nodes = 2
    async with users_of(rig) as users:
        job = await rig.submit("sleep 60", resolved={"cpu_millis": 250})
        await rig.until(job, JobState.RUNNING)
        nodes = (await users["bob"].get("/v1/nodes")).json()["items"]
        assert len(nodes) == 2
        assert {node["status"]["state"] for node in nodes} == {"Ready"}
        assert sum(node["status"]["free"]["cpu"] != node["spec"]["cpu"] for node in nodes) == 1
        one = nodes[0]["metadata"]
        alone = (await users["bob"].get(f"/v1/nodes/{one['id']}")).json()
        assert alone | {"status": nodes[0]["status"]} == nodes[0]
        assert nodes[0]["status"].items() <= alone["status"].items()
        pool = (await users["bob"].get("/v1/pools/public")).json()
        assert pool["status"]["nodes"] == 2


async def test_why_a_job_waits_is_told_in_numbers_to_those_who_may_see_it(rig: Rig):
    async with users_of(rig) as users:
        job = await rig.submit(replicas=2, resolved={"cpu_millis": 900_000})
        await eventually(lambda: _queued(users["ada"], job))
        answer = (await users["ada"].get(f"/v1/queue/{job}")).json()
        assert (answer["job"], answer["state"], answer["position"]) == (job, "Queued", 1)
        (blocker,) = answer["blockers"]
        assert (blocker["resource"], blocker["needed"]) == ("cpu", 1_800_000)
        assert blocker["available"] == blocker["total"] > 0
        assert "does not fit even with nothing else running" in answer["summary"]
        assert (await users["ada"].get("/v1/queue/demo")).json() == answer
        assert [item["job"] for item in (await users["ada"].get("/v1/queue")).json()["items"]] == [job]
        assert (await users["bob"].get(f"/v1/queue/{job}")).status_code == 404
        assert (await users["bob"].get("/v1/queue")).json()["items"] == []


async def test_the_queue_is_told_page_by_page_in_its_order(rig: Rig):
    async with users_of(rig) as users:
        big = {"cpu_millis": 900_000}
        jobs = [await rig.submit(name=f"j{n}", priority=1 + n, resolved=big) for n in range(3)]
        for job in jobs:
            await eventually(lambda job=job: _queued(users["ada"], job))
        first = (await users["ada"].get("/v1/queue?limit=2")).json()
        rest = (await users["ada"].get("/v1/queue", params={"cursor": first["next"]})).json()
        assert [item["job"] for item in first["items"] + rest["items"]] == jobs[::-1]
        assert rest["next"] is None
        assert (await users["ada"].get("/v1/queue?cursor=x")).status_code == 422


async def _queued(client: httpx.AsyncClient, job: str) -> bool | None:
    response = await client.get(f"/v1/queue/{job}")
    return (response.status_code == 200 and response.json()["position"] is not None) or None


async def _running(client: httpx.AsyncClient, job: str) -> dict | None:
    answer = (await client.get(f"/v1/queue/{job}")).json()
    return answer if answer["state"] == "Running" else None


async def test_where_a_running_job_stands_is_told_too(rig: Rig):
    async with users_of(rig) as users:
        job = await rig.submit("sleep 60")
        await rig.until(job, JobState.RUNNING)
        answer = await eventually(lambda: _running(users["root"], job))
        assert (answer["position"], answer["blockers"]) == (None, [])
        assert answer["summary"].startswith("all 1 replicas run since 2")


async def test_nothing_is_told_without_a_token(rig: Rig):
    service = await rig.scheduler()
    async with running(service), calling(service.app, None) as nobody:
        for path in ("/v1/pools", "/v1/instance-types", "/v1/nodes", "/v1/queue"):
            assert (await nobody.get(path)).status_code == 401
