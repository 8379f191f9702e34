"""The event that makes a job."""

from __future__ import annotations

from services.submitter.domain.admission import submitted_event
from shared.auth.principal import Principal
from shared.events import Resolved, Submitted
from shared.ids import UserId
from shared.jobspec import validate_job
from tests.support.jobs import START, role
from tests.support.specs import job_document


def test_the_event_holds_spec_owner_and_project() -> None:
    job = validate_job(job_document())
    event = submitted_event(
        job,
        Resolved(cluster="main", roles=(role("master"),)),
        Principal(UserId("u-ann"), "ann"),
        job_id="tj-aaaaaaaaaaaa",
        name="mnist-ddp",
        time=START,
        request_digest="d",
        traceparent=None,
    )
    assert isinstance(event.data, Submitted)
    assert (event.owner, event.project, event.subject) == ("u-ann", "vision", "tj-aaaaaaaaaaaa")
    assert event.data.spec == job.document()["spec"]
    assert event.data.labels == ("mnist", "demo")
