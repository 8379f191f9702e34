"""Incidents as people read them: listed, filtered, paged, for those who may see the job; evidence for its owner."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.watchdog.bootstrap import WatchdogService, bootstrap
from shared import events as ev
from shared.bus import Bus
from shared.bus.blobs import Blobs
from shared.bus.streams import EVIDENCE_BUCKET
from shared.catalog import CatalogStore, Project
from shared.clock import SystemClock
from tests.support.archiving import acknowledge_all
from tests.support.nats import NatsServer
from tests.support.services import eventually, running
from tests.support.watchdog import TestJob, token, watchdog_settings


@pytest.fixture
async def watchdog(bus: Bus, nats_server: NatsServer, tmp_path: Path) -> AsyncIterator[WatchdogService]:
    async with running(await bootstrap(watchdog_settings(nats_server.url, tmp_path))) as service:
        await service.reacts.wait()
        yield service


def client(service: WatchdogService, home: Path, name: str = "ada", *, admin: bool = False) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {token(home, name, admin=admin)}"}
    return httpx.AsyncClient(transport=httpx.ASGITransport(service.app), base_url="http://watchdog", headers=headers)


async def incident(bus: Bus, rule: str = "xid-79", job: TestJob | None = None, line: str = "Xid 79") -> TestJob:
    job = job or await TestJob(bus).run()
    fields = {"rule": rule, "line": line, "at": SystemClock().now()}
    await job.tell(ev.IncidentRaised.model_validate(fields | {"replica": {"role": "worker", "index": 0}}))
    return job


async def items(http: httpx.AsyncClient, count: int, path: str = "/v1/incidents", **query: Any) -> list[dict[str, Any]]:
    """The list once it has so many."""

    async def look() -> list[dict[str, Any]] | None:
        found = (await http.get(path, params=query)).json()["items"]
        return found if len(found) >= count else None

    return await eventually(look)


async def test_incidents_are_listed_newest_first_and_filtered(
    bus: Bus, watchdog: WatchdogService, tmp_path: Path
) -> None:
    first = await incident(bus)
    second = await incident(bus, "hang", line="silent")
    async with client(watchdog, tmp_path) as http:
        found = await items(http, 2)
        assert [each["job"] for each in found] == [second.id, first.id]
        assert (found[1]["jobName"], found[1]["rule"], found[1]["line"]) == ("demo", "xid-79", "Xid 79")
        assert (found[1]["replica"], found[1]["attempt"], found[1]["owner"]) == ("worker-0", 1, "ada")
        for query, jobs in (
            ({"rule": "hang"}, [second.id]),
            ({"job": first.id}, [first.id]),
            ({"project": "vision"}, []),
            ({"since": found[0]["at"]}, [second.id]),
            ({"until": found[0]["at"]}, [first.id]),
            ({"class": "user"}, []),
        ):
            assert [each["job"] for each in await items(http, len(jobs), **query)] == jobs, query
        page = (await http.get("/v1/incidents", params={"limit": 1})).json()
        rest = (await http.get("/v1/incidents", params={"limit": 1, "cursor": page["next"]})).json()
        assert ([each["job"] for each in rest["items"]], rest["next"]) == ([first.id], None)
        assert (await http.get("/v1/incidents", params={"cursor": "x"})).status_code == 422
        assert (await http.get("/v1/incidents", params={"colour": "x"})).status_code == 422


async def test_incidents_are_seen_by_owners_members_of_the_project_and_admins(
    bus: Bus, watchdog: WatchdogService, tmp_path: Path
) -> None:
    job = await incident(bus, job=await TestJob(bus, project="vision").run())
    async with client(watchdog, tmp_path, "root", admin=True) as http:
        assert len(await items(http, 1)) == 1
    async with client(watchdog, tmp_path, "bob") as http:
        assert await items(http, 0) == []
        assert (await http.get("/v1/incidents", params={"job": job.id})).status_code == 404
        members = {"name": "vision"}, {"members": {"users": ["bob"]}}
        document = {"apiVersion": "trainmaster/v1", "kind": "Project", "metadata": members[0], "spec": members[1]}
        await CatalogStore(bus).put(Project.model_validate(document), expected=0)
        assert [each["job"] for each in await items(http, 1)] == [job.id]
        assert (await http.get(f"/v1/incidents/evidence/{job.id}")).status_code == 403
    async with httpx.AsyncClient(transport=httpx.ASGITransport(watchdog.app), base_url="http://w") as http:
        assert (await http.get("/v1/incidents")).status_code == 401


async def test_evidence_is_read_by_its_owner(bus: Bus, watchdog: WatchdogService, tmp_path: Path) -> None:
    job = await TestJob(bus, 2).run(hangDetection={"enabled": True, "silence": "60s"})
    at = SystemClock().now()
    await job.tell(ev.IncidentRaised(rule="hang", line="silent", at=at))
    async with client(watchdog, tmp_path) as http:
        (told,) = await items(http, 1, f"/v1/incidents/evidence/{job.id}")
        assert (told["rule"], told["attempt"]) == ("hang", 1)
        bundle = await http.get(f"/v1/incidents/evidence/{job.id}/{told['digest']}")
        assert bundle.json()["line"] == "silent"
        assert len(bundle.content) == told["sizeBytes"]
        assert (await http.get(f"/v1/incidents/evidence/{job.id}/sha256:{'0' * 64}")).status_code == 404
    async with client(watchdog, tmp_path, "bob") as http:
        assert (await http.get(f"/v1/incidents/evidence/{job.id}/{told['digest']}")).status_code == 404


async def test_incidents_and_evidence_go_with_their_job(bus: Bus, watchdog: WatchdogService, tmp_path: Path) -> None:
    job = await TestJob(bus, 2).run(hangDetection={"enabled": True, "silence": "60s"})
    await job.tell(ev.IncidentRaised(rule="hang", line="silent", at=SystemClock().now()))
    blobs = Blobs(bus.js, EVIDENCE_BUCKET)
    async with client(watchdog, tmp_path) as http:
        (told,) = await items(http, 1, f"/v1/incidents/evidence/{job.id}")
        assert await blobs.exists(told["digest"])
        for index in range(2):
            await job.write(b"", index, end=True)
        await job.fail(1, 1)
        await job.decision()
        job._sequence = (await job.now()).sequence
        await job.tell(ev.Failed(reason="failed"))
        await job.tell(ev.Deleted(by="ada"))

        async def look() -> bool | None:
            left = (await http.get("/v1/incidents")).json()["items"]
            return True if not left and not await blobs.exists(told["digest"]) else None

        await eventually(look)


async def test_the_same_rule_in_three_jobs_of_a_node_is_one_incident_of_the_platform(
    bus: Bus, watchdog: WatchdogService, tmp_path: Path
) -> None:
    jobs = [await incident(bus) for _ in range(4)]
    await incident(bus, "other", jobs[0])
    async with client(watchdog, tmp_path, "root", admin=True) as http:

        async def look() -> list[dict[str, Any]] | None:
            found = (await http.get("/v1/incidents/platform")).json()["items"]
            return found if found and len(found[0]["jobs"]) == 4 else None

        (outage,) = await eventually(look)
    assert (outage["rule"], outage["placeKind"], outage["place"]) == ("xid-79", "node", "n-1")
    assert outage["jobs"] == [job.id for job in jobs]
    async with client(watchdog, tmp_path, "bob") as http:
        assert await items(http, 0, "/v1/incidents/platform") == []


async def test_a_log_that_is_lost_is_built_again_and_makes_no_outage_twice(
    bus: Bus, nats_server: NatsServer, tmp_path: Path
) -> None:
    settings = watchdog_settings(nats_server.url, tmp_path)
    for _ in range(2):
        async with running(await bootstrap(settings)) as service:
            await service.reacts.wait()
            if not (await bus.history.last_event("tm.platform.outage.suspected")):
                for _ in range(3):
                    await incident(bus)
            async with client(service, tmp_path, "root", admin=True) as http:
                assert len(await items(http, 3)) == 3
                assert len(await items(http, 1, "/v1/incidents/platform")) == 1
        settings.incidents_file.unlink()
        await bus.close()
        bus = await nats_server.bus()
    info = await bus.js.stream_info("JOBS", subjects_filter="tm.platform.>")
    await bus.close()
    assert (info.state.subjects or {}) == {"tm.platform.outage.suspected": 1}


async def test_a_log_that_is_built_anew_has_the_incidents_of_archived_jobs(
    bus: Bus, nats_server: NatsServer, tmp_path: Path
) -> None:
    async with running(await bootstrap(watchdog_settings(nats_server.url, tmp_path))) as service:
        await service.reacts.wait()
        jobs = [await incident(bus), await incident(bus)]
        async with client(service, tmp_path) as http:
            before = await items(http, 2)
    await acknowledge_all(bus)
    assert await bus.archive.put_away(jobs[0].id)
    for file in tmp_path.rglob("incidents.sqlite*"):
        file.unlink()
    async with running(await bootstrap(watchdog_settings(nats_server.url, tmp_path))) as service:
        await service.reacts.wait()
        async with client(service, tmp_path) as http:
            assert await items(http, 2) == before
