"""What of a job only admins see."""

from __future__ import annotations

from services.submitter.domain.audience import job_for
from shared import events as ev
from shared.auth.principal import Principal
from tests.support.jobs import job_after, placed

FOUND = ev.IncidentRaised(rule="message/1", line="boom")
TRIED = ev.IncidentRaised(rule="scratch-gone", line="boom", mode="shadow")


def test_finds_of_rules_that_are_tried_are_shown_to_admins_alone() -> None:
    job = job_after(placed(1), ev.Started(), TRIED, FOUND)
    assert job_for(Principal("u-root", "root", admin=True), job).attempt.incidents == (TRIED, FOUND)
    assert job_for(Principal(job.owner, "ada"), job).attempt.incidents == (FOUND,)
    assert job.attempt.incidents == (TRIED, FOUND)


def test_a_job_without_such_finds_is_shown_as_it_is() -> None:
    job = job_after(placed(1), ev.Started(), FOUND)
    assert job_for(Principal(job.owner, "ada"), job) is job
