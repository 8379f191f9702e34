"""The fold and the transition table, by example and under duplicated, delayed and reordered events."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared import events as ev
from shared.events import Payload
from shared.jobs import (
    ALLOWED_IN,
    ENDED,
    HOLDING,
    LIVE,
    IllegalTransitionError,
    Job,
    JobState,
    Recorded,
    fold,
    fold_all,
)
from tests.support.jobs import START, history, job_after, placed, submitted

ENDED_WELL = ev.AttemptEnded(reason=ev.EndReason.COMPLETED)
ENDED_BADLY = ev.AttemptEnded(reason=ev.EndReason.FAILED)
RETRY = ev.RetryDecided(retry=True, reason="listed exit code")
NO_RETRY = ev.RetryDecided(retry=False, reason="exit code 1")
STOP = ev.StopRequested(by="u-ada")
MOVED = ev.PlacementChanged(roles=placed(2, node="n-9").roles, left=("n-1",), taken=("n-9",), round=2)
PREEMPT = ev.PreemptionRequested(by="tj-aaaaaaaaaaab", priority=9)


def started(index: int, node: str = "") -> ev.ReplicasChanged:
    change = ev.ReplicaChange(role="worker", index=index, state="started", at=START, node=node)
    return ev.ReplicasChanged(changes=(change,))


def exited(index: int, code: int = 0, node: str = "") -> ev.ReplicasChanged:
    end = ev.ReplicaExit(code=code)
    change = ev.ReplicaChange(role="worker", index=index, state="exited", at=START, exit=end, node=node)
    return ev.ReplicasChanged(changes=(change,))


NEXT: dict[JobState, tuple[Payload, ...]] = {
    JobState.QUEUED: (placed(), placed().model_copy(update={"diagnosing": True}), STOP),
    JobState.DIAGNOSING: (ev.Admitted(), MOVED, ENDED_BADLY, STOP, PREEMPT),
    JobState.STARTING: (ev.Started(), ENDED_BADLY, STOP, PREEMPT),
    JobState.RUNNING: (ENDED_WELL, ENDED_BADLY, STOP, PREEMPT),
    JobState.DECIDING: (
        RETRY,
        NO_RETRY,
        ev.Succeeded(),
        ev.Failed(reason="failed"),
        STOP,
        ev.Queued(reason="preempted"),
    ),
    JobState.RETRYING: (ev.Queued(), STOP),
    JobState.STOPPING: (ev.Stopped(),),
}


@st.composite
def lives(draw: st.DrawFn) -> list[Recorded]:
    """A legal history of one job, with observations strewn in."""
    payloads: list[tuple[Payload, int]] = [(submitted(), 1)]
    while True:
        job = fold_all(history(payloads, "tj-aaaaaaaaaaaa"))
        assert job is not None
        if job.ended or len(payloads) > 24:
            return history(payloads, "tj-aaaaaaaaaaaa")
        attempt = job.attempt.number
        if job.attempt.placement and draw(st.booleans()):
            index = draw(st.integers(0, 1))
            node = job.attempt.placement.roles[0].node(index)
            seen = [started(index, node), exited(index, 0, node), exited(index, 1, node)]
            payloads.append((draw(st.sampled_from(seen)), attempt))
        payload = draw(st.sampled_from(NEXT[job.state]))
        payloads.append((payload, attempt + 1 if isinstance(payload, ev.Queued) else attempt))


def states_only(job: Job | None) -> object:
    assert job is not None
    return job.state, job.sequence, [(a.number, a.placement, a.ended, a.decision) for a in job.attempts]


@given(lives())
def test_every_prefix_of_a_legal_life_is_a_job(life: list[Recorded]) -> None:
    job: Job | None = None
    for recorded in life:
        job = fold(job, recorded)
        assert job is not None
        assert job.state in LIVE | ENDED
        assert [attempt.number for attempt in job.attempts] == list(range(1, len(job.attempts) + 1))


@given(lives(), st.randoms(use_true_random=False))
def test_repeated_events_change_nothing(life: list[Recorded], rnd: random.Random) -> None:
    job: Job | None = None
    for position, recorded in enumerate(life):
        job = fold(job, recorded)
        for repeat in rnd.sample(life[: position + 1], k=min(3, position + 1)):
            assert fold(job, repeat) == job


@given(lives(), st.randoms(use_true_random=False))
def test_late_and_reordered_observations_do_not_touch_the_states(life: list[Recorded], rnd: random.Random) -> None:
    transitions = [recorded for recorded in life if recorded.event.data.KIND == "state"]
    observations = [recorded for recorded in life if recorded.event.data.KIND == "obs"]
    rnd.shuffle(observations)
    assert states_only(fold_all([*transitions, *observations])) == states_only(fold_all(life))


@given(lives(), st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_a_replica_that_exited_stays_so_whatever_order_its_observations_come_in(
    life: list[Recorded], rnd: random.Random
) -> None:
    job = fold_all(life)
    late = history([(submitted(), 1), (placed(), 1), (exited(0, 3), 1), (started(0), 1), (exited(0, 0), 1)])
    tail = late[2:]
    rnd.shuffle(tail)
    folded = fold_all([*late[:2], *tail])
    assert job is not None
    assert folded is not None
    replica = folded.attempt.replica("worker", 0)
    assert replica is not None
    assert replica.state in ("Succeeded", "Failed")
    assert replica.started_at is not None


@pytest.mark.parametrize("payload_type", list(ALLOWED_IN))
def test_an_event_is_refused_in_every_state_that_the_table_does_not_name(payload_type: type[Payload]) -> None:
    examples: dict[type[Payload], Payload] = {
        type(p): p for payloads in NEXT.values() for p in payloads if not getattr(p, "diagnosing", False)
    }
    payload = {**examples, ev.Deleted: ev.Deleted(by="u-ada")}[payload_type]
    base = job_after()
    for state in JobState:
        job = base.model_copy(update={"state": state})
        recorded = history([(payload, 1)], job.id)[0]
        recorded = Recorded(job.sequence + 1, recorded.subject, recorded.event)
        if state in ALLOWED_IN[payload_type]:
            assert fold(job, recorded) is not job
        else:
            with pytest.raises(IllegalTransitionError):
                fold(job, recorded)


def test_a_state_event_before_submission_is_refused() -> None:
    with pytest.raises(IllegalTransitionError, match="not submitted"):
        fold_all(history([(ev.Started(), 1)]))


def test_an_observation_before_submission_is_nothing() -> None:
    assert fold_all(history([(started(0), 1)])) is None


def test_placing_makes_the_replicas_pending_on_their_nodes() -> None:
    job = job_after(placed(2, node="n-7"))
    assert [(r.index, r.node, r.state) for r in job.attempt.replicas.values()] == [
        (0, "n-7", "Pending"),
        (1, "n-7", "Pending"),
    ]


def test_a_stop_wins_over_the_decision_about_a_retry() -> None:
    job = job_after(placed(), ev.Started(), ENDED_BADLY, STOP)
    assert job.state is JobState.STOPPING
    assert job.stop == STOP


def test_an_attempt_that_ends_while_stopping_leaves_the_job_stopping() -> None:
    assert job_after(placed(), ev.Started(), STOP, ENDED_BADLY).state is JobState.STOPPING


def test_a_retry_gives_a_second_attempt_and_keeps_the_first() -> None:
    job = fold_all(
        history(
            [(submitted(), 1), (placed(), 1), (ev.Started(), 1), (ENDED_BADLY, 1), (RETRY, 1), (ev.Queued(), 2)],
        ),
    )
    assert job is not None
    assert (job.state, job.attempt.number) == (JobState.QUEUED, 2)
    assert job.attempts[0].ended == ENDED_BADLY
    assert job.attempt.placement is None


def test_a_deleted_job_takes_no_further_event() -> None:
    job = job_after(STOP, ev.Stopped(), ev.Deleted(by="u-ada"))
    assert job.deleted
    with pytest.raises(IllegalTransitionError):
        fold(job, Recorded(99, "", history([(ev.Deleted(by="u-ada"), 1)], job.id)[0].event))


def test_states_that_hold_a_gang_are_live() -> None:
    assert HOLDING < LIVE


def test_a_job_survives_being_written_as_json_and_read_again() -> None:
    job = job_after(placed(), ev.Started(), started(0), exited(0, 137), ENDED_BADLY)
    assert Job.model_validate_json(job.model_dump_json(by_alias=True, exclude_none=True)) == job


def test_a_preemption_is_remembered_with_its_attempt_and_moves_the_job_to_no_other_state() -> None:
    job = job_after(placed(), ev.Started(), PREEMPT)
    assert (job.state, job.sequence) == (JobState.RUNNING, 4)
    assert job.attempt.preemption == PREEMPT
    assert job.attempt.preempted_at is not None
    again = job_after(placed(), PREEMPT, ev.AttemptEnded(reason=ev.EndReason.PREEMPTED), ev.Queued(reason="preempted"))
    assert (again.state, again.attempt.number, again.attempt.preemption) == (JobState.QUEUED, 2, None)


DIAGNOSING = placed().model_copy(update={"diagnosing": True})


def test_replaced_nodes_begin_another_round_of_the_diagnosis_and_the_last_one_is_kept() -> None:
    found = ev.DiagnosisFinished(passed=False, bad_nodes=("n-1",))
    job = job_after(DIAGNOSING, ev.DiagnosisRequested(nodes=("n-1",)), found, MOVED)
    attempt = job.attempt
    assert (job.state, attempt.round) == (JobState.DIAGNOSING, 2)
    assert (attempt.diagnosis, attempt.diagnosis_requested_at) == (None, None)
    assert [(each.change, each.diagnosis) for each in attempt.replaced] == [(MOVED, found)]
    assert {replica.node for replica in attempt.replicas.values()} == {"n-9"}
    assert attempt.round_began_at == attempt.replaced[0].at > attempt.placed_at


def test_an_outcome_of_an_earlier_round_that_comes_late_is_not_that_of_the_present_one() -> None:
    late = ev.DiagnosisFinished(passed=True)
    job = job_after(DIAGNOSING, MOVED, ev.DiagnosisRequested(nodes=("n-1",)), late)
    assert (job.attempt.diagnosis, job.attempt.diagnosis_requested_at) == (None, None)
    own = late.model_copy(update={"round": 2})
    assert job_after(DIAGNOSING, MOVED, late, own).attempt.diagnosis == own


def test_what_is_told_of_a_replica_on_the_node_that_it_left_is_not_of_the_one_that_took_its_place() -> None:
    job = job_after(DIAGNOSING, MOVED, started(0, "n-1"), started(1, "n-9"))
    assert [replica.state for replica in job.attempt.replicas.values()] == ["Pending", "Running"]


def test_a_gang_that_started_keeps_its_nodes() -> None:
    with pytest.raises(IllegalTransitionError):
        job_after(DIAGNOSING, ev.Admitted(), MOVED)
