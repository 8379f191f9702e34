"""Jobs that ended long ago move out of JOBS; their users notice nothing of it."""

from __future__ import annotations

import shutil
from pathlib import Path

from shared import events as ev
from shared.bus import Bus
from shared.bus.publish import name_subject
from shared.bus.streams import JOBS
from shared.catalog import User
from shared.clock import ManualClock, SystemClock
from tests.support.archiving import acknowledge_all
from tests.support.services import eventually
from tests.support.specs import small_job_document
from tests.support.submitter import Submission, submitting

AGE_S = 3600
KEY = {"Idempotency-Key": "k"}


class FromNow(ManualClock):
    """A clock moved by hand that begins at the present, as tokens and the events of the tests have real times."""

    def __init__(self) -> None:
        super().__init__(SystemClock().now())


async def ended_job(submission: Submission, name: str = "train") -> str:
    client = submission.client()
    job: str = (await client.post("/v1/jobs", json=small_job_document(name), headers=KEY)).json()["metadata"]["id"]
    await client.post(f"/v1/jobs/{job}/stop")
    await submission.tell(job, ev.Stopped(message="as asked"))
    return job


async def is_in_jobs(bus: Bus, job: str) -> bool:
    return bool(await bus.history.job_messages_in_jobs(job))


async def archived(bus: Bus, job: str, clock: ManualClock) -> None:
    async def look() -> bool | None:
        await clock.advance(60)  # again and again, as a sleeper may not have lain down yet
        return None if await is_in_jobs(bus, job) else True

    await eventually(look)


async def test_an_old_job_is_archived_and_told_of_as_before(bus: Bus, tmp_path: Path) -> None:
    clock = FromNow()
    async with submitting(bus, tmp_path / "home", clock=clock, archive_after_s=AGE_S) as submission:
        client, job = submission.client(), await ended_job(submission)
        young = (await client.post("/v1/jobs", json=small_job_document("young"))).json()["metadata"]["id"]
        paths = (f"/v1/jobs/{job}", f"/v1/jobs/{job}/events", "/v1/jobs/train", "/v1/jobs")
        before = [(await client.get(path)).json() for path in paths]
        await clock.advance(AGE_S - 120)
        assert await is_in_jobs(bus, job)
        await archived(bus, job, clock)
        assert [(await client.get(path)).json() for path in paths] == before
        assert await is_in_jobs(bus, young)
    shutil.rmtree(tmp_path / "home" / "readmodels")
    async with submitting(bus, tmp_path / "home", clock=clock, archive_after_s=AGE_S) as submission:
        client = submission.client()
        assert [(await client.get(path)).json() for path in paths] == before


async def test_name_and_idempotency_key_of_an_archived_job_are_taken_until_it_is_deleted(
    bus: Bus, tmp_path: Path
) -> None:
    clock = FromNow()
    async with submitting(bus, tmp_path / "home", clock=clock, archive_after_s=AGE_S) as submission:
        client, job = submission.client(), await ended_job(submission)
        await archived(bus, job, clock)
        again = await client.post("/v1/jobs", json=small_job_document("train"), headers=KEY)
        assert (again.status_code, again.json()["metadata"]["id"]) == (201, job)
        assert (await client.post("/v1/jobs", json=small_job_document("train"))).status_code == 409
        assert (await client.post(f"/v1/jobs/{job}/stop")).status_code == 409
        assert (await client.delete(f"/v1/jobs/{job}")).status_code == 204
        assert (await client.get(f"/v1/jobs/{job}")).status_code == 404
        assert (await client.delete(f"/v1/jobs/{job}")).status_code == 404
        assert (await client.post("/v1/jobs", json=small_job_document("train"))).status_code == 201


async def test_of_a_deleted_job_nothing_stays_in_jobs_and_of_a_used_name_its_last_claim(
    bus: Bus, tmp_path: Path
) -> None:
    clock, subject = FromNow(), name_subject(User.id_of("ann"), "train")
    async with submitting(bus, tmp_path / "home", clock=clock, archive_after_s=AGE_S) as submission:
        client, first = submission.client(), await ended_job(submission)
        await client.delete(f"/v1/jobs/{first}")
        second = (await client.post("/v1/jobs", json=small_job_document("train"))).json()["metadata"]["id"]
        await acknowledge_all(bus)
        await archived(bus, first, clock)

        async def claims() -> bool | None:
            return True if len(await bus.history.messages(JOBS, subject)) == 1 else None

        await eventually(claims)
        await client.post(f"/v1/jobs/{second}/stop")
        await submission.tell(second, ev.Stopped())
        await client.delete(f"/v1/jobs/{second}")
        await acknowledge_all(bus)
        await archived(bus, second, clock)

        async def nothing() -> bool | None:
            return None if await bus.history.messages(JOBS, subject) else True

        await eventually(nothing)
        assert (await client.post("/v1/jobs", json=small_job_document("train"))).status_code == 201
