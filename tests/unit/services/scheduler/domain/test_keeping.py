"""Of which attempts something is held, and until when."""

from __future__ import annotations

from datetime import timedelta

import pytest

from services.scheduler.domain.keeping import kept_until
from shared import events as ev
from shared.jobs import Job
from tests.support.jobs import job_after, placed, submitted


def ended(reason: ev.EndReason, keep_for: str | None = "2h") -> Job:
    job = job_after(placed(2), ev.Started(), ev.AttemptEnded(reason=reason))
    spec = {**submitted().spec, **({"keepFor": keep_for} if keep_for else {})}
    return job.model_copy(update={"submitted": submitted(spec=spec)})


@pytest.mark.parametrize("reason", ["failed", "hang", "start-timeout", "max-run-time", "platform", "diagnosis"])
def test_what_a_failed_attempt_leaves_is_held(reason: str) -> None:
    job = ended(ev.EndReason(reason))
    assert job.attempt.ended_at is not None
    assert kept_until(job, 1) == job.attempt.ended_at + timedelta(hours=2)


@pytest.mark.parametrize("reason", ["completed", "stopped", "preempted"])
def test_nothing_is_held_of_an_attempt_that_did_not_fail(reason: str) -> None:
    assert kept_until(ended(ev.EndReason(reason)), 1) is None


def test_nothing_is_held_unasked_before_the_end_or_of_an_attempt_that_never_was() -> None:
    assert kept_until(ended(ev.EndReason.FAILED, None), 1) is None
    assert kept_until(job_after(placed(2)), 1) is None
    assert kept_until(ended(ev.EndReason.FAILED), 2) is None
