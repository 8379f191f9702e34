"""A rule of an admin is looked for at once, first without consequences, then as one of the catalogue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.watchdog.bootstrap import WatchdogService, bootstrap
from shared.bus import Bus
from tests.support.nats import NatsServer
from tests.support.services import eventually, running
from tests.support.watchdog import TestJob, token, watchdog_settings

LINE = b"E scratch volume gone on node 7\n"


@pytest.fixture
async def watchdog(bus: Bus, nats_server: NatsServer, tmp_path: Path) -> AsyncIterator[WatchdogService]:
    async with running(await bootstrap(watchdog_settings(nats_server.url, tmp_path))) as service:
        await service.reacts.wait()
        yield service


def client(service: WatchdogService, home: Path, *, admin: bool) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {token(home, 'root' if admin else 'ada', admin=admin)}"}
    return httpx.AsyncClient(transport=httpx.ASGITransport(service.app), base_url="http://watchdog", headers=headers)


def document(mode: str = "shadow", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "trainmaster/v1",
        "kind": "Rule",
        "metadata": {"name": "our-disk"},
        "spec": {
            "class": "node",
            "anyOf": [["scratch volume gone"]],
            "advice": "Ask the storage team.",
            "matches": ["E scratch volume gone on node 7"],
            "mode": mode,
            **spec,
        },
    }


async def found(http: httpx.AsyncClient) -> dict[str, Any]:
    """The first incident of the rule, once there is one."""

    async def look() -> dict[str, Any] | None:
        items = (await http.get("/v1/incidents", params={"rule": "our-disk"})).json()["items"]
        return items[0] if items else None

    return await eventually(look)


async def test_a_rule_in_shadow_mode_finds_and_decides_nothing_until_it_is_active(
    bus: Bus, watchdog: WatchdogService, tmp_path: Path
) -> None:
    retry = {"maxRetries": 2, "on": {"failure": {"policy": "Advanced"}}}
    async with client(watchdog, tmp_path, admin=True) as admin, client(watchdog, tmp_path, admin=False) as user:
        assert (await admin.put("/v1/rules/our-disk", json=document())).status_code == 201
        job = await TestJob(bus).run(retry=retry)
        await job.write(LINE, end=True)
        incident = await found(admin)
        assert (incident["mode"], incident["class"], incident["job"]) == ("shadow", "node", job.id)
        assert (await user.get("/v1/incidents")).json()["items"] == []
        await job.fail(3)
        assert (await job.decision()).rule != "our-disk"
        rule = (await admin.get("/v1/rules/our-disk")).json()["status"]
        assert (rule["mode"], rule["jobs"], rule["meaning"]) == ("shadow", 1, "another attempt on other nodes")
        assert (await user.get("/v1/rules/our-disk")).status_code == 404
        page = (await admin.get("/metrics")).text
        assert 'incidents_total{class="node",mode="shadow",rule="our-disk"} 1.0' in page

        assert (await admin.put("/v1/rules/our-disk", json=document("active"))).status_code == 200
        other = await TestJob(bus).run(retry=retry)
        await other.write(LINE, end=True)
        (told,) = await other.incidents()
        assert (told.mode, told.failure_class, told.advice) == ("active", "node", "Ask the storage team.")
        await other.fail(3)
        decision = await other.decision()
        assert (decision.retry, decision.rule) == (True, "our-disk")
        assert (await user.get("/v1/incidents")).json()["items"][0]["job"] == other.id

        assert (await admin.delete("/v1/rules/our-disk")).status_code == 204
        third = await TestJob(bus).run(retry=retry)
        await third.write(LINE, end=True)
        await third.fail(3)
        assert (await third.decision()).rule != "our-disk"


async def test_rules_are_listed_for_everybody_and_changed_by_admins(
    bus: Bus, watchdog: WatchdogService, tmp_path: Path
) -> None:
    async with client(watchdog, tmp_path, admin=False) as user:
        page = (await user.get("/v1/rules", params={"limit": 1000})).json()
        assert page["next"] is None
        origins = [each["status"]["origin"] for each in page["items"]]
        assert set(origins) == {"built-in", "preset"}
        first = (await user.get("/v1/rules", params={"limit": 2})).json()
        second = (await user.get("/v1/rules", params={"limit": 2, "cursor": first["next"]})).json()
        assert [*first["items"], *second["items"]] == page["items"][:4]
        preset = page["items"][-1]["metadata"]["name"]
        assert (await user.get(f"/v1/rules/{preset}")).json()["status"]["origin"] == "preset"
        assert (await user.put("/v1/rules/our-disk", json=document())).status_code == 403
        assert (await user.delete("/v1/rules/our-disk")).status_code == 403
    async with client(watchdog, tmp_path, admin=True) as admin:
        refused = await admin.put("/v1/rules/our-disk", json=document(anyOf=[["ab"]], matches=["ab"]))
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["pointer"] == "/spec/anyOf/0"
        assert (await admin.put("/v1/rules/other", json=document())).status_code == 422
        assert (await admin.delete("/v1/rules/our-disk")).status_code == 404
