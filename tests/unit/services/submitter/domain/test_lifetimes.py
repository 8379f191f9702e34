"""When ended jobs are due to be deleted."""

from __future__ import annotations

from datetime import timedelta

from services.submitter.domain.lifetimes import Lifetimes, expires_at
from shared import events as ev
from shared.jobs import Job
from tests.support.jobs import START, job_after, submitted

ENDED = (ev.StopRequested(by="ada"), ev.Stopped())


def kept_for(ttl: str | None, *payloads: ev.Payload) -> Job:
    job = job_after(*payloads)
    spec = {**submitted().spec, **({"ttlAfterFinished": ttl} if ttl else {})}
    return job.model_copy(update={"submitted": submitted(spec=spec)})


def test_a_job_is_due_its_time_after_its_end() -> None:
    job = kept_for("90s", *ENDED)
    assert job.ended_at is not None
    assert expires_at(job) == job.ended_at + timedelta(seconds=90)


def test_a_job_that_lives_is_deleted_or_has_no_such_time_is_never_due() -> None:
    assert expires_at(kept_for("90s")) is None
    assert expires_at(kept_for(None, *ENDED)) is None
    assert expires_at(kept_for("90s", *ENDED, ev.Deleted(by="ada"))) is None


def test_jobs_come_up_in_the_order_of_their_times_and_once() -> None:
    lifetimes = Lifetimes()
    for seconds, job in ((30, "c"), (10, "a"), (20, "b")):
        lifetimes.postpone(job, START + timedelta(seconds=seconds))
    assert lifetimes.next() == START + timedelta(seconds=10)
    assert lifetimes.due(START + timedelta(seconds=20)) == ["a", "b"]
    assert lifetimes.due(START + timedelta(seconds=25)) == []
    assert lifetimes.next() == START + timedelta(seconds=30)
