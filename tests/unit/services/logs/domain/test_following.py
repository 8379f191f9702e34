"""When a follower has seen everything."""

from __future__ import annotations

from datetime import timedelta

import pytest

from services.logs.domain.following import END_MARK_WAIT_S, Selection, what_follows
from shared import events as ev
from shared.jobs import Job, fold_all
from tests.support.jobs import START, history, job_after, placed, submitted

ALL = Selection()
LATER = START + timedelta(hours=1)
FIRST, SECOND = ("worker", 0), ("worker", 1)


def started(*indexes: int) -> ev.ReplicasChanged:
    changes = [ev.ReplicaChange(role="worker", index=index, state="started", at=START) for index in indexes]
    return ev.ReplicasChanged(changes=tuple(changes))


RUNNING = (placed(), ev.Started(), started(0, 1))
ENDED = (*RUNNING, ev.AttemptEnded(reason="completed"))


def soon_after(job: Job):
    assert job.attempt.ended_at is not None
    return job.attempt.ended_at + timedelta(seconds=1)


def test_a_job_that_waits_or_runs_is_waited_for():
    assert what_follows(job_after(), 1, ALL, {}, LATER) == ("wait", False)
    assert what_follows(job_after(*RUNNING), 1, ALL, {FIRST: True, SECOND: True}, LATER) == ("wait", False)


def test_the_end_is_when_the_job_has_ended_and_all_started_replicas_have_end_marks():
    job = job_after(*ENDED, ev.Succeeded())
    assert what_follows(job, 1, ALL, {FIRST: True, SECOND: True}, soon_after(job)) == ("end", True)
    assert what_follows(job, 1, ALL, {FIRST: True}, soon_after(job)) == ("wait", False)
    assert what_follows(job, 1, ALL, {FIRST: True, SECOND: False}, soon_after(job)) == ("wait", False)


def test_an_end_mark_that_does_not_come_is_waited_for_only_so_long():
    job = job_after(*ENDED, ev.Succeeded())
    assert job.attempt.ended_at is not None
    late = job.attempt.ended_at + timedelta(seconds=END_MARK_WAIT_S)
    assert what_follows(job, 1, ALL, {FIRST: True}, late) == ("end", False)


def test_a_job_that_never_started_anything_ends_at_once():
    job = job_after(ev.StopRequested(by="u-ada"), ev.Stopped())
    assert what_follows(job, 1, ALL, {}, START) == ("end", True)


def test_only_the_selected_replicas_count():
    job = job_after(*ENDED, ev.Succeeded())
    assert what_follows(job, 1, Selection(index=0), {FIRST: True}, soon_after(job)) == ("end", True)
    assert what_follows(job, 1, Selection(role="master"), {}, soon_after(job)) == ("end", True)


def test_between_the_end_of_an_attempt_and_the_end_of_the_job_there_may_be_more():
    job = job_after(*ENDED)
    assert what_follows(job, 1, ALL, {FIRST: True, SECOND: True}, soon_after(job))[0] == "wait"
    assert what_follows(job, 1, Selection(attempt=1), {FIRST: True, SECOND: True}, soon_after(job)) == ("end", True)


def second_attempt() -> Job:
    decision = ev.RetryDecided(retry=True, reason="again")
    payloads = [(submitted(), 1), *((payload, 1) for payload in (*ENDED, decision)), (ev.Queued(), 2)]
    job = fold_all(history(payloads))
    assert job is not None
    return job


def test_the_next_attempt_is_followed_unless_one_was_chosen():
    job, whole = second_attempt(), {FIRST: True, SECOND: True}
    assert what_follows(job, 1, ALL, whole, LATER) == ("next-attempt", True)
    assert what_follows(job, 1, Selection(attempt=1), whole, LATER) == ("end", True)
    assert what_follows(job, 2, ALL, {}, LATER) == ("wait", False)


def test_an_attempt_that_does_not_exist_ends_with_the_job():
    assert what_follows(job_after(), 3, Selection(attempt=3), {}, LATER)[0] == "wait"
    job = job_after(*ENDED, ev.Succeeded())
    assert what_follows(job, 3, Selection(attempt=3), {}, LATER) == ("end", True)


@pytest.mark.parametrize(
    ("selection", "has"),
    [(ALL, True), (Selection(role="worker"), True), (Selection(role="x"), False), (Selection(index=1), False)],
)
def test_a_selection_picks_by_role_and_index(selection: Selection, has: bool):
    assert selection.has(FIRST) is has
