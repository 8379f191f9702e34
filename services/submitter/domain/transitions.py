"""The events that users cause: a name claimed, an end asked for, a job deleted; and when a job allows them."""

from __future__ import annotations

from datetime import datetime

from shared.auth.principal import Principal
from shared.errors import ConflictError, ForbiddenError
from shared.events import Deleted, Event, NameClaimed, NameReleased, Payload, StopRequested
from shared.jobs import Job, JobState


def name_claim(submitted: Event, name: str) -> Event:
    """The event that claims the name for the job that is being submitted."""
    return Event.of(
        NameClaimed(name=name),
        job=submitted.subject,
        attempt=1,
        time=submitted.time,
        owner=submitted.owner or "",
        project=submitted.project or "",
        traceparent=submitted.traceparent,
    )


def check_may_control(job: Job, principal: Principal) -> None:
    """Only the owner and admins end and delete; members of the project look on."""
    if not (principal.admin or principal.user_id == job.owner):
        raise ForbiddenError(f"job {job.id} belongs to {job.submitted.owner_name}; only they and admins may do this")


def stop(job: Job, principal: Principal, time: datetime, *, traceparent: str | None) -> Event | None:
    """The event that asks for the end; None where somebody asked already. Raises ConflictError where it has ended."""
    if job.ended:
        raise ConflictError(f"job {job.id} has ended already ({job.state})", current=job.sequence)
    if job.state is JobState.STOPPING:
        return None
    return _event(job, StopRequested(by=principal.name), time, traceparent)


def delete(job: Job, principal: Principal, time: datetime, *, traceparent: str | None) -> tuple[Event, Event]:
    """The events that free the name and delete the job; raises ConflictError where it has not ended."""
    if not job.ended:
        raise ConflictError(f"job {job.id} is {job.state}; stop it first and wait for its end", current=job.sequence)
    return (
        _event(job, NameReleased(name=job.name), time, traceparent),
        _event(job, Deleted(by=principal.name), time, traceparent),
    )


def _event(job: Job, payload: Payload, time: datetime, traceparent: str | None) -> Event:
    return Event.of(
        payload,
        job=job.id,
        attempt=job.attempt.number,
        time=time,
        owner=job.owner,
        project=job.project,
        traceparent=traceparent,
    )
