"""Ended jobs are deleted by the platform when their time is over, also when it was away at that moment."""

from __future__ import annotations

from pathlib import Path

from shared import events as ev
from shared.bus import Bus
from shared.clock import ManualClock, SystemClock
from shared.jobs import Job
from tests.support.services import eventually
from tests.support.specs import changed, small_job_document
from tests.support.submitter import Submission, submitting

TTL_S = 3600
DOCUMENT = changed(small_job_document(), "/spec/ttlAfterFinished", "1h")


async def ended_job(submission: Submission) -> str:
    answer = await submission.client().post("/v1/jobs", json=DOCUMENT)
    job: str = answer.json()["metadata"]["id"]
    await submission.client().post(f"/v1/jobs/{job}/stop")
    await submission.tell(job, ev.Stopped())
    return job


async def deleted(bus: Bus, job: str, clock: ManualClock) -> Job:
    async def look() -> Job | None:
        await clock.advance(60)  # again and again, as a sleeper may not have lain down yet
        found = await bus.load_job(job)
        return found if found is not None and found.deleted else None

    return await eventually(look)


async def test_the_platform_deletes_a_job_after_its_time_and_its_name_is_free(bus: Bus, tmp_path: Path) -> None:
    clock = FromNow()
    async with submitting(bus, tmp_path / "home", clock=clock) as submission:
        job = await ended_job(submission)
        await clock.advance(TTL_S - 120)
        assert (await submission.client().get(f"/v1/jobs/{job}")).status_code == 200
        await deleted(bus, job, clock)
        last = (await bus.history.job_events(job))[-1].event
        assert isinstance(last.data, ev.Deleted)
        assert last.data.by == "platform"
        assert (await submission.client().get(f"/v1/jobs/{job}")).status_code == 404
        assert (await submission.client().post("/v1/jobs", json=DOCUMENT)).status_code == 201


async def test_a_time_that_passed_while_the_platform_was_away_is_made_up_for(bus: Bus, tmp_path: Path) -> None:
    async with submitting(bus, tmp_path / "home") as submission:
        job = await ended_job(submission)
    later = FromNow()
    await later.advance(TTL_S + 60)
    async with submitting(bus, tmp_path / "home", clock=later):
        await deleted(bus, job, later)


class FromNow(ManualClock):
    """A clock moved by hand that begins at the present, as tokens and the events of the tests have real times."""

    def __init__(self) -> None:
        super().__init__(SystemClock().now())
