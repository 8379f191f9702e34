from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.watchdog.decision import MAX_OTHERS, ROOT_CAUSES, decide, describe
from shared import events as ev
from shared.events import EndReason, OutOfMemory, ReplicaExit
from shared.jobs import Job
from tests.support.jobs import START, job_after, placed

FIRST = ev.ReplicaRef(role="worker", index=0)


def ended(reason: EndReason = EndReason.FAILED, **changes: object) -> ev.AttemptEnded:
    fields: dict[str, object] = {"reason": reason, "first_failure": FIRST, "exit": ReplicaExit(code=3)}
    return ev.AttemptEnded.model_validate({**fields, **changes})


def job_that(end: ev.AttemptEnded, *before: ev.Payload, replicas: int = 2) -> Job:
    return job_after(placed(replicas), ev.Started(), *before, end)


def exits(*codes: int) -> ev.ReplicasChanged:
    return ev.ReplicasChanged(
        changes=tuple(
            ev.ReplicaChange(role="worker", index=index, state="exited", at=START, exit=ReplicaExit(code=code))
            for index, code in enumerate(codes)
        )
    )


def test_a_failed_attempt_is_not_retried_and_the_exit_code_says_why() -> None:
    decision = decide(job_that(ended()))
    assert decision is not None
    assert not decision.retry
    assert decision.reason == "worker-0 ended with exit code 3; the job asks for no retries"
    assert (decision.root_cause, decision.replica, decision.budget_left) == ("exit-code", FIRST, 0)


@pytest.mark.parametrize(
    ("exit_status", "words", "cause"),
    [
        (ReplicaExit(code=1), "ended with exit code 1", "exit-code"),
        (ReplicaExit(code=-1), "ended with exit code -1", "exit-code"),
        (
            ReplicaExit(code=127),
            "ended with exit code 127 (as a shell reports a command that it did not find)",
            "exit-code",
        ),
        (
            ReplicaExit(code=137),
            "ended with exit code 137 (as a shell reports a process that was ended by signal 9 (SIGKILL))",
            "exit-code",
        ),
        (ReplicaExit(code=255), "ended with exit code 255", "exit-code"),
        (ReplicaExit(signal=11), "was ended by signal 11 (SIGSEGV)", "signal"),
        (ReplicaExit(signal=50), "was ended by signal 50", "signal"),
        (
            ReplicaExit(signal=9, out_of_memory=OutOfMemory.CERTAIN),
            "was ended by signal 9 (SIGKILL), out of memory",
            "out-of-memory",
        ),
        (
            ReplicaExit(code=1, out_of_memory=OutOfMemory.SUSPECTED),
            "ended with exit code 1, perhaps out of memory",
            "exit-code",
        ),
        (ReplicaExit(cause="lost", message="its node is gone"), "was lost: its node is gone", "lost"),
        (ReplicaExit(cause="never-started", message="no bash"), "could not be started: no bash", "never-started"),
        (ReplicaExit(cause="never-started"), "could not be started", "never-started"),
        (ReplicaExit(), "ended without an exit status", "exit-code"),
    ],
)
def test_every_way_to_end_has_words_and_a_cause(exit_status: ReplicaExit, words: str, cause: str) -> None:
    assert describe(exit_status) == words
    decision = decide(job_that(ended(exit=exit_status)))
    assert decision is not None
    assert decision.reason.startswith(f"worker-0 {words};")
    assert decision.root_cause == cause
    assert cause in ROOT_CAUSES


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (EndReason.START_TIMEOUT, "not every replica ran within startTimeout"),
        (EndReason.MAX_RUN_TIME, "the attempt ran for its maxRunTime"),
        (EndReason.PLATFORM, "the platform ended the attempt"),
        (EndReason.HANG, "the job hung"),
        (EndReason.DIAGNOSIS, "the diagnosis of the nodes failed"),
        (EndReason.PREEMPTED, "the attempt was preempted"),
        (EndReason.FAILED, "a replica failed"),
    ],
)
def test_an_end_without_a_failed_replica_is_told_by_its_reason(reason: EndReason, words: str) -> None:
    decision = decide(job_that(ended(reason, first_failure=None, exit=None)))
    assert decision is not None
    assert decision.reason.startswith(words)
    assert decision.root_cause == reason
    assert reason in ROOT_CAUSES


def test_the_schedulers_own_sentence_is_kept_where_no_replica_failed() -> None:
    message = "the attempt ran for its maxRunTime of 48h"
    decision = decide(job_that(ended(EndReason.MAX_RUN_TIME, first_failure=None, exit=None, message=message)))
    assert decision is not None
    assert decision.reason == f"{message}; the job asks for no retries"


def test_the_other_failed_replicas_are_told_in_order() -> None:
    decision = decide(job_that(ended(), exits(3, 0, 1, 137), replicas=4))
    assert decision is not None
    assert decision.others[0] == "worker-2 ended with exit code 1"
    assert decision.others[1].startswith("worker-3 ended with exit code 137")
    assert len(decision.others) == 2


def test_of_very_many_failed_replicas_only_the_first_are_told() -> None:
    decision = decide(job_that(ended(), exits(*[1] * 1001), replicas=1001))
    assert decision is not None
    assert len(decision.others) == MAX_OTHERS + 1
    assert decision.others[-1] == "and 980 more"


def test_nothing_is_decided_before_the_attempt_ended() -> None:
    assert decide(job_after()) is None
    assert decide(job_after(placed(), ev.Started())) is None


def test_nothing_is_decided_about_an_attempt_that_completed() -> None:
    assert decide(job_that(ended(EndReason.COMPLETED, first_failure=None, exit=None))) is None


def test_nothing_is_decided_about_a_job_that_is_being_stopped() -> None:
    assert decide(job_that(ended(EndReason.STOPPED), ev.StopRequested(by="ada"))) is None


def test_nothing_is_decided_twice() -> None:
    job = job_that(ended())
    decision = decide(job)
    assert decision is not None
    assert decide(job_after(placed(), ev.Started(), ended(), decision)) is None
    assert decide(job_after(placed(), ev.Started(), ended(), decision, ev.Failed(reason="failed"))) is None


@given(
    reason=st.sampled_from([reason for reason in EndReason if reason is not EndReason.COMPLETED]),
    code=st.none() | st.integers(-(2**31), 2**31),
    number=st.none() | st.integers(0, 200),
    memory=st.sampled_from(OutOfMemory),
    cause=st.sampled_from(["exited", "stopped", "lost", "never-started"]),
    first=st.booleans(),
)
def test_whatever_ended_an_attempt_is_decided_and_the_same_when_asked_again(
    reason: EndReason, code: int | None, number: int | None, memory: OutOfMemory, cause: str, *, first: bool
) -> None:
    status = ReplicaExit.model_validate({"code": code, "signal": number, "out_of_memory": memory, "cause": cause})
    job = job_that(ended(reason, exit=status, first_failure=FIRST if first else None))
    decision = decide(job)
    assert decision is not None
    assert not decision.retry
    assert decision.reason
    assert decide(job) == decision
