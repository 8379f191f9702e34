"""The event that makes a job of a valid document and everything that it refers to."""

from __future__ import annotations

from datetime import datetime

from shared.auth.principal import Principal
from shared.errors import InvalidInputError, Violation
from shared.events import Event, EventError, Resolved, Submitted
from shared.events import encode as encode_event
from shared.jobspec import JobSpec


def submitted_event(
    job: JobSpec,
    resolved: Resolved,
    principal: Principal,
    *,
    job_id: str,
    name: str,
    time: datetime,
    request_digest: str,
    traceparent: str | None,
) -> Event:
    """The event that makes the job; raises InvalidInputError where it is too large to be one."""
    payload = Submitted(
        name=name,
        generate_name=job.metadata.generate_name,
        owner_name=principal.name,
        labels=job.metadata.labels,
        spec=job.document()["spec"],
        resolved=resolved,
        priority=job.spec.priority,
        request_digest=request_digest,
    )
    event = Event.of(
        payload,
        job=job_id,
        attempt=1,
        time=time,
        owner=principal.user_id,
        project=job.metadata.project,
        traceparent=traceparent,
    )
    try:
        encode_event(event)
    except EventError as error:
        sentence = (
            f"with all that it refers to the job is too large ({error.message}); upload code instead of inlining it"
        )
        raise InvalidInputError((Violation("", "spec-too-large", sentence),)) from None
    return event
