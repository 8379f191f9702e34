"""Which events users may cause in which state."""

from __future__ import annotations

import pytest

from services.submitter.domain import transitions
from shared import events as ev
from shared.auth.principal import Principal
from shared.errors import ConflictError, ForbiddenError
from shared.ids import UserId
from shared.jobs import Job, JobState
from tests.support.jobs import START, job_after, placed

OWNER = Principal(UserId("u-ada"), "ada")
COMPLETED = ev.AttemptEnded(reason=ev.EndReason.COMPLETED)


def in_state(state: JobState) -> Job:
    return job_after().model_copy(update={"state": state})


@pytest.mark.parametrize("state", [state for state in JobState if state not in ("Succeeded", "Failed", "Stopped")])
def test_a_live_job_can_be_stopped_once_and_not_deleted(state: JobState) -> None:
    event = transitions.stop(in_state(state), OWNER, START, traceparent=None)
    assert (event is None) == (state is JobState.STOPPING)
    with pytest.raises(ConflictError):
        transitions.delete(in_state(state), OWNER, START, traceparent=None)


def test_an_ended_job_is_deleted_with_its_name() -> None:
    job = job_after(placed(), ev.Started(), COMPLETED, ev.Succeeded())
    with pytest.raises(ConflictError):
        transitions.stop(job, OWNER, START, traceparent=None)
    released, deleted = transitions.delete(job, OWNER, START, traceparent=None)
    assert released.data == ev.NameReleased(name="demo")
    assert deleted.data == ev.Deleted(by="ada")


def test_the_same_request_is_the_same_event() -> None:
    job = job_after()
    first, second = (transitions.stop(job, OWNER, START, traceparent=None) for _ in range(2))
    assert first.message_id == second.message_id


def test_only_owner_and_admins_control_a_job() -> None:
    transitions.check_may_control(job_after(), OWNER)
    transitions.check_may_control(job_after(), Principal(UserId("u-x"), "x", admin=True))
    with pytest.raises(ForbiddenError):
        transitions.check_may_control(job_after(), Principal(UserId("u-x"), "x"))
