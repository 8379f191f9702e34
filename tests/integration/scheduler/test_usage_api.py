"""Usage over HTTP: what a job came to, who sees it, and its verification."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import sys
from contextlib import closing

import httpx

from shared import events as ev
from shared.bus.streams import USAGE
from shared.events import Event
from shared.jobs import JobState
from tests.support.archiving import acknowledge_all
from tests.support.scheduling import Rig, users_of
from tests.support.services import eventually, running

PRICED = {
    "price_micros_per_hour": 3_600_000_000
}  # a micro for each microsecond: the amount is a thousand times the time


async def billed(client: httpx.AsyncClient, job: str) -> dict:
    """The bill of an ended job, once everything is on record."""

    async def look() -> dict | None:
        bill = (await client.get("/v1/usage/bill", params={"job": job})).json()
        return bill if bill["items"] and bill["accrued"] == {"replicaMs": 0, "amountMicros": 0} else None

    return await eventually(look)


async def ran(rig: Rig, name: str = "demo", **more) -> str:
    job = await rig.submit("sleep 0.2", name=name, resolved=PRICED, **more)
    await rig.until(job, JobState.SUCCEEDED)
    return job


async def test_an_ended_job_is_billed_at_once_for_exactly_the_time_that_its_replicas_ran(rig: Rig):
    async with users_of(rig) as users:
        job = await ran(rig, replicas=2)
        bill = await billed(users["ada"], job)
        attempt = (await rig.job(job)).attempt
    running_ms = sum((one.ended_at - attempt.started_at).total_seconds() * 1000 for one in attempt.replicas.values())
    (line,) = (line for line in bill["items"] if line["phase"] == "running")
    assert line["replicaMs"] == round(running_ms) > 300
    assert line["amountMicros"] == line["replicaMs"] * 1000
    assert (line["jobName"], line["owner"], line["role"], line["pool"]) == ("demo", "ada", "worker", "public")
    assert bill["total"]["amountMicros"] == line["amountMicros"]


async def test_a_running_job_shows_what_it_has_used_so_far(rig: Rig):
    async with users_of(rig) as users:
        job = await rig.submit("sleep 60", resolved=PRICED)
        await rig.until(job, JobState.RUNNING)
        bill = (await users["ada"].get("/v1/usage/bill", params={"job": "demo"})).json()
    assert bill["items"] == []
    assert bill["accrued"]["amountMicros"] > 0


async def test_usage_is_seen_by_the_owner_and_admins_also_after_the_job_was_deleted(rig: Rig):
    async with users_of(rig) as users:
        job = await ran(rig)
        await billed(users["ada"], job)
        await rig.append(ev.Deleted(by="u-ada"), job)
        for name, status in (("ada", 200), ("root", 200), ("bob", 404)):
            assert (await users[name].get("/v1/usage", params={"job": job})).status_code == status
            assert (await users[name].get("/v1/usage/verification", params={"job": job})).status_code == status
        listed = {name: len((await user.get("/v1/usage")).json()["items"]) for name, user in users.items()}
        lines = {name: len((await user.get("/v1/usage/bill")).json()["items"]) for name, user in users.items()}
        verified = {
            name: len((await user.get("/v1/usage/verification")).json()["items"]) for name, user in users.items()
        }
    assert listed["bob"] == lines["bob"] == verified["bob"] == 0
    assert listed["ada"] == listed["root"] > 0
    assert lines["ada"] == lines["root"] > 0
    assert verified["ada"] == verified["root"] == 1


async def test_events_and_lines_are_filtered_and_come_in_pages(rig: Rig):
    async with users_of(rig) as users:
        ada = users["ada"]
        jobs = [await ran(rig, f"job-{number}") for number in range(2)]
        for job in jobs:
            await billed(ada, job)
        for path in ("/v1/usage", "/v1/usage/bill"):
            whole = (await ada.get(path)).json()["items"]
            pieces, cursor = [], None
            while True:
                page = (await ada.get(path, params={"limit": 1} | ({"cursor": cursor} if cursor else {}))).json()
                pieces += page["items"]
                cursor = page["next"]
                if cursor is None:
                    break
            assert pieces == whole
            assert (await ada.get(path, params={"project": "other"})).json()["items"] == []
            assert (await ada.get(path, params={"to": "2020-01-01T00:00:00Z"})).json()["items"] == []
            assert (await ada.get(path, params={"from": "2020-01-01T00:00:00Z"})).json()["items"] == whole
            for nowhere in ("yesterday", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"):
                assert (await ada.get(path, params={"from": nowhere})).status_code == 422
                assert (await ada.get(path, params={"to": nowhere})).status_code == 422
            assert (await ada.get(path, params={"cursor": "x"})).status_code == 422


async def test_an_archived_job_is_verified_by_a_scheduler_that_begins_anew(rig: Rig):
    async with users_of(rig) as users:
        job = await ran(rig)
        bill = await billed(users["ada"], job)
    await acknowledge_all(rig.bus)
    assert await rig.bus.archive.put_away(job)
    shutil.rmtree(rig.home / "readmodels")
    async with users_of(rig) as users:
        assert await billed(users["ada"], job) == bill
        for wanted in ({"job": job}, {}):
            (verified,) = (await users["ada"].get("/v1/usage/verification", params=wanted)).json()["items"]
            assert {one["verdict"] for one in verified["comparisons"]} == {"same"}


async def test_verification_finds_a_record_that_no_event_of_the_job_bears_out(rig: Rig):
    async with users_of(rig) as users:
        job = await ran(rig)
        await billed(users["ada"], job)
        (verified,) = (await users["ada"].get("/v1/usage/verification", params={"job": job})).json()["items"]
        assert verified["differs"] is False
        assert {one["verdict"] for one in verified["comparisons"]} == {"same"}
        await forge(rig, job)

        async def found() -> dict | None:
            (verified,) = (await users["root"].get("/v1/usage/verification")).json()["items"]
            return verified if verified["differs"] else None

        wrong = await eventually(found)
    (one,) = (one for one in wrong["comparisons"] if one["verdict"] == "different")
    assert (one["role"], one["recorded"]["amountMicros"], one["recomputed"]["amountMicros"]) == ("ghost", 7, 0)


async def forge(rig: Rig, job: str) -> None:
    message = await rig.bus.js.get_msg(USAGE, 1)
    event = ev.decode(message.data)
    ghost = event.data.model_copy(update={"role": "ghost", "amount_micros": 7})
    forged: Event = event.model_copy(update={"id": f"{job}/1/ghost/2026-01-01T00:00:00Z", "data": ghost})
    last = await rig.bus.history.last_sequence(message.subject, stream=USAGE)
    await rig.bus.meter(forged, subject=message.subject, expected=last)


async def test_an_attempt_that_ended_while_no_scheduler_was_there_is_metered_by_the_next(rig: Rig):
    async with running(await rig.scheduler()):
        job = await rig.submit("sleep 0.3", resolved=PRICED)
        await rig.until(job, JobState.RUNNING)
    async with users_of(rig) as users:
        await rig.until(job, JobState.SUCCEEDED)
        bill = await billed(users["ada"], job)
    assert bill["total"]["amountMicros"] > 0


async def killed_after(rig: Rig, seconds: float) -> None:
    """A scheduler in a process of its own, killed with -9."""
    settings = rig.settings()
    environment = {
        **os.environ,
        "TRAINMASTER_NATS_URL": settings.nats_url,
        "TRAINMASTER_HOME": str(settings.home),
        "TRAINMASTER_JWKS_FILE": str(settings.jwks_file),
        "TRAINMASTER_MACHINE": settings.machine,
    }
    with closing((rig.home / "scheduler.log").open("ab")) as log:
        command = [sys.executable, "-m", "services.scheduler"]
        scheduler = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        await asyncio.sleep(seconds)
        scheduler.kill()
        scheduler.wait()


async def test_a_scheduler_killed_again_and_again_bills_every_attempt_once(rig: Rig):
    chance = random.Random(9)  # noqa: S311  # when to kill is no secret
    jobs = [await rig.submit(f"sleep 0.{n}", name=f"j{n}", replicas=1 + n % 2, resolved=PRICED) for n in range(8)]
    for _ in range(5):
        await killed_after(rig, chance.uniform(1.2, 2.2))
    async with users_of(rig) as users:
        for job in jobs:
            await rig.until(job, JobState.SUCCEEDED, limit_s=40)
            await billed(users["ada"], job)
        verified = (await users["root"].get("/v1/usage/verification")).json()["items"]
    assert len(verified) == len(jobs)
    assert {one["verdict"] for each in verified for one in each["comparisons"]} == {"same"}
    messages = await rig.bus.history.messages(USAGE, "tm.usage.*")
    ids = [ev.decode(message.data).id for message in messages]
    assert len(ids) == len(set(ids)) >= len(jobs)
