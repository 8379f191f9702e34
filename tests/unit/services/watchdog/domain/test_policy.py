from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.watchdog.catalogue import built_in_rules, preset_rows
from services.watchdog.domain import policy
from services.watchdog.domain.found import Found
from services.watchdog.domain.policy import MAX_OTHERS, Heard, logs_to_await
from services.watchdog.domain.rootcause import Catalogue
from services.watchdog.domain.terms import Terms
from services.watchdog.domain.wording import ROOT_CAUSES, describe, exit_code
from shared import events as ev
from shared.events import EndReason, OutOfMemory, ReplicaExit
from shared.jobs import Job, JobState, fold_all
from tests.support.jobs import START, history, job_after, placed, submitted

FIRST = ev.ReplicaRef(role="worker", index=0)
SECOND = ev.ReplicaRef(role="worker", index=1)


CATALOGUE = Catalogue.of(built_in_rules(), preset_rows())


def decide(
    job: Job, *found: Found, progress: ev.Progress | None = None, checkpoint: str | None = None
) -> ev.RetryDecided | None:
    return policy.decide(job, Terms.of(job), CATALOGUE, Heard(found, progress, checkpoint))


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
    reason=st.sampled_from([each for each in EndReason if each not in (EndReason.COMPLETED, EndReason.PREEMPTED)]),
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


# --- policies


def failing(retry: dict | None, *exits_of: int | ReplicaExit, first: int = 0, hang: bool = False, **end: object) -> Job:
    """A job with this retry section whose replicas ended like this."""
    made = submitted(replicas=len(exits_of))
    spec = {**made.spec, **({"retry": retry} if retry else {}), "hangDetection": {"enabled": hang}}
    statuses = [ReplicaExit(code=each) if isinstance(each, int) else each for each in exits_of]
    changes = [
        ev.ReplicaChange(role="worker", index=index, state=state, at=START, exit=status if state == "exited" else None)
        for index, status in enumerate(statuses)
        for state in ("started", "exited")
    ]
    ref = ev.ReplicaRef(role="worker", index=first)
    told = [
        made.model_copy(update={"spec": spec}),
        placed(len(statuses)),
        ev.Started(),
        ev.ReplicasChanged(changes=tuple(changes)),
        ended(**{"first_failure": ref, "exit": statuses[first], **end}),
    ]
    job = fold_all(history([(payload, 1) for payload in told]))
    assert job is not None
    assert job.state is JobState.DECIDING
    return job


def retry_on(policy: str, most: int = 3, **conditions: object) -> dict:
    return {"maxRetries": most, "on": {"failure": {"policy": policy, **conditions}}}


STOPPED = ReplicaExit(code=143, cause="stopped")
MESSAGES = [["disk", "full"], ["lost peer"]]


def test_on_failure_retries_whatever_happened() -> None:
    decision = decide(failing(retry_on("OnFailure"), 3))
    assert decision is not None
    assert (decision.retry, decision.rule, decision.budget_left) == (True, "on-failure", 2)
    assert decision.reason == "worker-0 ended with exit code 3; OnFailure retries every failure"


@pytest.mark.parametrize("reason", [EndReason.START_TIMEOUT, EndReason.MAX_RUN_TIME, EndReason.PLATFORM])
def test_on_failure_retries_attempts_that_a_limit_or_the_platform_ended(reason: EndReason) -> None:
    decision = decide(failing(retry_on("OnFailure"), STOPPED, reason=reason, first_failure=None, exit=None))
    assert decision is not None
    assert decision.retry


def test_where_on_names_no_failure_a_failure_is_not_retried() -> None:
    decision = decide(failing({"maxRetries": 3, "on": {"hang": True}}, 3, hang=True))
    assert decision is not None
    assert (decision.retry, decision.budget_left) == (False, 3)
    assert decision.reason.endswith("; retry.on names no failure")


@pytest.mark.parametrize(
    ("statuses", "rule", "replica"),
    [
        ((7, 0), "exit-code/7", FIRST),
        ((1, 7), "exit-code/7", SECOND),
        ((1, 2), None, FIRST),
        ((ReplicaExit(signal=9), 0), "exit-code/137", FIRST),
        ((1, ReplicaExit(code=7, cause="stopped")), None, FIRST),
        ((ReplicaExit(cause="lost"), STOPPED), None, FIRST),
    ],
)
@pytest.mark.parametrize("policy", ["ExitCodeAndErrorMsg", "Advanced"])
def test_a_listed_exit_code_of_a_failed_replica_decides(
    policy: str, statuses: tuple, rule: str | None, replica: ev.ReplicaRef
) -> None:
    decision = decide(failing(retry_on(policy, exitCodes=[7, 137, 143]), *statuses))
    assert decision is not None
    assert (decision.retry, decision.rule, decision.replica) == (rule is not None, rule, replica)


@pytest.mark.parametrize(
    ("statuses", "lines", "retried"),
    [
        ((7, 0), [Found("message/1", FIRST, "the disk is full")], True),
        ((7, 0), [], False),
        ((1, 0), [Found("message/1", FIRST, "the disk is full")], False),
        ((7, 1), [Found("message/1", SECOND, "the disk is full")], False),
        ((1, 7), [Found("message/2", SECOND, "lost peer")], True),
        ((7, 0), [Found("message/1", SECOND, "the disk is full")], False),
        ((7, STOPPED), [Found("message/1", SECOND, "the disk is full")], False),
    ],
)
def test_code_and_message_must_hold_for_the_same_failed_replica(statuses, lines, retried) -> None:
    job = failing(retry_on("ExitCodeAndErrorMsg", exitCodes=[7], errorMessages=MESSAGES), *statuses)
    decision = decide(job, *lines)
    assert decision is not None
    assert decision.retry is retried
    if retried:
        assert (decision.rule, decision.replica, decision.line) == (lines[0].rule, lines[0].replica, lines[0].line)
        assert "exit code 7 is listed and worker-" in decision.reason
    else:
        assert decision.reason.endswith("no failed replica has a listed exit code and a listed message")


def test_a_message_alone_decides_where_no_codes_are_given() -> None:
    job = failing(retry_on("ExitCodeAndErrorMsg", errorMessages=MESSAGES), 1, 0)
    assert decide(job, Found("message/2", FIRST, "lost peer")).rule == "message/2"
    assert decide(job).reason.endswith("no failed replica has a listed message")


def test_advanced_asks_codes_then_messages_then_preset_rows() -> None:
    spec = retry_on("Advanced", exitCodes=[9], errorMessages=MESSAGES)
    preset = Found("preset/gloo-connect", FIRST, "RuntimeError: Gloo connectFullMesh failed with x")
    message = Found("message/2", SECOND, "lost peer")
    assert decide(failing(spec, 9, 1), preset, message).rule == "exit-code/9"
    decision = decide(failing(spec, 1, 1), preset, message)
    assert (decision.rule, decision.replica, decision.line) == ("message/2", SECOND, "lost peer")
    assert decision.others == (
        "worker-1 ended with exit code 1",
        "worker-0 printed (preset/gloo-connect): RuntimeError: Gloo connectFullMesh failed with x",
    )
    assert decide(failing(spec, 1, 1), preset).rule == "preset/gloo-connect"


def test_advanced_hears_the_last_words_of_replicas_that_were_stopped_but_not_of_those_that_succeeded() -> None:
    line = Found("preset/collective-timeout", SECOND, "…")
    assert decide(failing(retry_on("Advanced"), 1, STOPPED), line).retry
    assert not decide(failing(retry_on("Advanced"), 1, 0), line).retry


def test_a_preempted_job_is_queued_again_and_uses_no_retry_even_where_it_asks_for_none() -> None:
    preempted = {"reason": EndReason.PREEMPTED, "first_failure": None, "exit": None}
    for retry, left in ((None, 0), (retry_on("Advanced", 2), 2)):
        decision = decide(failing(retry, STOPPED, **preempted))
        assert (decision.retry, decision.charged, decision.budget_left) == (True, "platform", left)
        assert (decision.rule, decision.cause.failure_class) == ("fact/preempted", "infrastructure")


def test_where_no_rule_decides_it_says_so_and_there_is_no_retry() -> None:
    decision = decide(failing(retry_on("Advanced"), 1))
    assert (decision.retry, decision.rule) == (False, None)
    assert "no rule decides" in decision.reason


def test_incidents_on_record_count_like_lines_that_were_just_found() -> None:
    job = failing(retry_on("Advanced", errorMessages=MESSAGES), 1)
    incident = ev.IncidentRaised(rule="message/1", line="the disk is full", replica=FIRST)
    attempt = job.attempt.model_copy(update={"incidents": (incident,)})
    decision = decide(job.model_copy(update={"attempts": (attempt,)}))
    assert (decision.rule, decision.line) == ("message/1", "the disk is full")


def test_what_a_rule_in_shadow_mode_found_is_no_part_of_a_decision() -> None:
    job = failing(retry_on("Advanced", errorMessages=MESSAGES), 1)
    tried = ev.IncidentRaised(rule="our-disk", line="the disk is full", replica=FIRST, mode="shadow")
    attempt = job.attempt.model_copy(update={"incidents": (tried,)})
    decision = decide(job.model_copy(update={"attempts": (attempt,)}))
    assert (decision.rule, decision.others) == (None, ())


def test_the_interval_counts_from_the_confirmed_end() -> None:
    job = failing({"maxRetries": 1, "interval": "90s"}, 1)
    assert (decide(job).not_before - job.attempt.ended_at).total_seconds() == 90
    assert decide(failing({"maxRetries": 1}, 1)).not_before is None


def test_a_hang_is_decided_by_its_own_condition() -> None:
    hung = {"reason": EndReason.HANG, "first_failure": None, "exit": None, "message": "silent for 30m"}
    on_hang = {"maxRetries": 2, "on": {"hang": True}}
    decision = decide(failing(on_hang, STOPPED, hang=True, **hung))
    assert (decision.retry, decision.rule, decision.root_cause) == (True, "on-hang", "hang")
    assert decision.reason == "silent for 30m; retry.on.hang asks for a new attempt"
    assert not decide(failing(retry_on("OnFailure"), STOPPED, hang=True, **hung)).retry


@pytest.mark.parametrize("most", [1, 2, 5])
def test_there_are_exactly_as_many_new_attempts_as_asked_for(most: int) -> None:
    told: list[tuple[ev.Payload, int]] = [
        (submitted().model_copy(update={"spec": {**submitted().spec, "retry": {"maxRetries": most}}}), 1)
    ]
    number = 1
    while True:
        told += [(placed(), number), (ev.Started(), number), (ended(), number)]
        job = fold_all(history(told))
        assert job is not None
        decision = decide(job)
        assert decision is not None
        assert decision.budget_left == max(0, most - number)
        if not decision.retry:
            break
        number += 1
        told += [(decision, number - 1), (ev.Queued(), number)]
    assert number == most + 1
    used_up = "the one retry is used up" if most == 1 else f"all {most} retries are used up"
    assert decision.reason == f"worker-0 ended with exit code 3; OnFailure retries every failure, but {used_up}"


# --- the class of the root cause, and chains

OOM = Found("cuda-oom", FIRST, "CUDA out of memory. Tried to allocate 2 GiB", 1)
ECC = Found("cuda-ecc", SECOND, "uncorrectable ECC error encountered", 1)
SEGV = Found("exit-sigsegv", FIRST, "Signal 11 (SIGSEGV) received by PID 7", 1)
DNS = Found("dns", FIRST, "Temporary failure in name resolution", 1)


def test_an_error_of_the_job_itself_is_not_retried_and_it_says_so_with_what_to_do() -> None:
    decision = decide(failing(retry_on("Advanced"), 1), OOM)
    assert (decision.retry, decision.rule, decision.line) == (False, None, OOM.line)
    assert "cuda-oom in worker-0 is an error of the job itself" in decision.reason
    assert "smaller batch" in decision.reason
    assert decision.cause.failure_class == "user"


def test_a_failure_of_the_node_is_retried_without_that_node() -> None:
    decision = decide(failing(retry_on("Advanced"), 1, 1), ECC)
    assert (decision.retry, decision.rule, decision.exclude_nodes) == (True, "cuda-ecc", ("n-1",))
    assert "does not get" in decision.reason


def test_a_node_is_left_out_whatever_rule_asked_for_the_retry_and_not_without_one() -> None:
    assert decide(failing(retry_on("OnFailure"), 1, 1), ECC).exclude_nodes == ("n-1",)
    assert decide(failing(None, 1, 1), ECC).exclude_nodes == ()


def test_what_passes_by_itself_is_retried() -> None:
    decision = decide(failing(retry_on("Advanced"), 1), DNS)
    assert (decision.retry, decision.rule) == (True, "dns")


def test_the_users_own_rules_and_the_preset_rows_come_before_the_class() -> None:
    assert decide(failing(retry_on("Advanced", exitCodes=[1]), 1), OOM).rule == "exit-code/1"
    preset = Found("preset/gloo-connect", FIRST, "RuntimeError: Gloo connectFullMesh failed with x", 9)
    assert decide(failing(retry_on("Advanced"), 1), OOM, preset).rule == "preset/gloo-connect"


def chain(
    *ends: tuple[Found, ev.Progress | ev.ProgressReported | None]
    | tuple[Found, ev.Progress | ev.ProgressReported | None, str],
    policy: str = "Advanced",
    **conditions: object,
) -> ev.RetryDecided:
    """The last decision of attempts that ended like this, having saved a checkpoint where one is given."""
    made = submitted(replicas=1)
    told: list[tuple[ev.Payload, int]] = [
        (made.model_copy(update={"spec": {**made.spec, "retry": retry_on(policy, 9, **conditions)}}), 1)
    ]
    for number, (found, progress, *checkpoint) in enumerate(ends, start=1):
        told += [(placed(1), number), (ev.Started(), number)]
        printed = None if isinstance(progress, ev.ProgressReported) else progress
        told += [(progress, number)] if isinstance(progress, ev.ProgressReported) else []
        told.append((ended(), number))
        job = fold_all(history(told))
        decision = decide(job, found, progress=printed, checkpoint=next(iter(checkpoint), None))
        told += [(decision, number), (ev.Queued(), number + 1)]
    return decision


def at(step: int) -> ev.Progress:
    return ev.Progress(step=step)


def reported(step: int, epoch: float | None = None) -> ev.ProgressReported:
    return ev.ProgressReported(at=START, step=step, epoch=epoch)


def test_the_same_cause_twice_in_a_row_without_progress_stops_the_chain_with_the_reason() -> None:
    decision = chain((DNS, at(100)), (DNS, at(100)))
    assert not decision.retry
    assert "dns ended two attempts in a row in the same way" in decision.reason
    assert "came no further (step 100)" in decision.reason


@pytest.mark.parametrize(
    "ends",
    [
        ((DNS, at(100)), (DNS, at(101))),
        ((DNS, ev.Progress(epoch=1, step=99)), (DNS, ev.Progress(epoch=2))),
        ((DNS, reported(100)), (DNS, reported(101))),
        ((DNS, reported(99, epoch=1.9)), (DNS, reported(5, epoch=2.0))),
        ((DNS, None), (Found("estale", FIRST, "Stale file handle", 1), None)),
        ((DNS, None), (Found("dns", FIRST, "another text: Name or service not known", 1), None)),
    ],
)
def test_progress_or_another_cause_keeps_the_chain_going(ends: tuple) -> None:
    assert chain(*ends).retry


def test_progress_that_was_reported_counts_where_the_log_prints_none() -> None:
    decision = chain((DNS, reported(100)), (DNS, reported(100)))
    assert not decision.retry
    assert "came no further (step 100)" in decision.reason


def saved(path: str) -> tuple[Found, ev.Progress | None, str]:
    return DNS, None, path


@pytest.mark.parametrize(
    "ends",
    [
        ((DNS, None), saved("checkpoint-500/model.pt")),
        (saved("checkpoint-500/model.pt"), saved("checkpoint-1000/model.pt")),
        (saved("last.pt"), saved("last.pt")),
    ],
)
def test_a_new_checkpoint_of_a_silent_job_is_progress(ends: tuple) -> None:
    decision = chain(*ends)
    assert (decision.retry, decision.checkpoint) == (True, ends[-1][2])


@pytest.mark.parametrize(
    "ends",
    [
        (saved("checkpoint-500/model.pt"), saved("checkpoint-500/model.pt")),
        (saved("checkpoint-500/model.pt"), (DNS, None)),
        ((DNS, at(100), "last.pt"), (DNS, at(100), "last.pt")),
    ],
)
def test_a_checkpoint_that_was_there_before_or_tells_less_than_the_steps_is_none(ends: tuple) -> None:
    decision = chain(*ends)
    assert not decision.retry
    assert "came no further" in decision.reason


def test_on_failure_goes_on_whatever_repeats_itself() -> None:
    assert chain((OOM, None), (OOM, None), (OOM, None), policy="OnFailure").retry


def test_a_listed_exit_code_without_a_known_cause_is_no_repeat() -> None:
    unknown = Found("message/1", FIRST, "x", 1)
    assert chain((unknown, None), (unknown, None), policy="ExitCodeAndErrorMsg", exitCodes=[3]).retry


def test_an_ambiguous_cause_gets_one_more_try_and_another_only_after_progress() -> None:
    cublas = Found("cublas", FIRST, "CUBLAS_STATUS_EXECUTION_FAILED", 1)
    assert chain((SEGV, at(5))).retry
    decision = chain((SEGV, at(5)), (cublas, at(5)))
    assert not decision.retry
    assert "given one more try already" in decision.reason
    assert chain((SEGV, at(5)), (cublas, at(6))).retry


def lost(*earlier: ev.RetryDecided, most: int = 1) -> ev.RetryDecided:
    job = failing(
        retry_on("ExitCodeAndErrorMsg", most, exitCodes=[9]), ReplicaExit(cause="lost"), reason=EndReason.PLATFORM
    )
    past = tuple(job.attempt.model_copy(update={"decision": each, "number": 0}) for each in earlier)
    return decide(job.model_copy(update={"attempts": (*past, job.attempt)}))


def test_what_the_platform_lost_it_makes_up_for_without_using_retries() -> None:
    decision = lost()
    assert (decision.retry, decision.rule, decision.charged, decision.budget_left) == (
        True,
        "fact/platform",
        "platform",
        1,
    )
    assert lost(*[decision] * (policy.PLATFORM_RETRIES_MAX - 1)).budget_left == 1
    assert not lost(*[decision] * policy.PLATFORM_RETRIES_MAX).retry


# --- which logs a decision waits for


def test_a_decision_waits_for_the_logs_of_replicas_that_did_not_succeed() -> None:
    job = failing(retry_on("Advanced"), 1, 0, STOPPED)
    assert logs_to_await(job, Terms.of(job)) == (FIRST, ev.ReplicaRef(role="worker", index=2))


def test_a_decision_about_the_last_attempt_waits_too_for_it_says_why_it_failed() -> None:
    one_retry = retry_on("Advanced", most=1)
    (used,) = failing(one_retry, 1).attempts
    retried = used.model_copy(update={"decision": ev.RetryDecided(retry=True, reason="x")})
    last = failing(one_retry, 1)
    last = last.model_copy(update={"attempts": (retried, last.attempt.model_copy(update={"number": 2}))})
    assert logs_to_await(last, Terms.of(last)) == (FIRST,)
    decision = decide(last, Found("preset/gloo-connect", FIRST, "Gloo"))
    assert decision is not None
    assert (decision.retry, decision.rule, decision.budget_left) == (False, "preset/gloo-connect", 0)


@pytest.mark.parametrize(
    "retry",
    [
        None,
        retry_on("OnFailure"),
        retry_on("ExitCodeAndErrorMsg", exitCodes=[7]),
        retry_on("Advanced", exitCodes=[1]),
        {"maxRetries": 0, "on": {"failure": {"policy": "Advanced"}}},
    ],
)
def test_a_decision_that_no_text_can_change_waits_for_none(retry: dict | None) -> None:
    job = failing(retry, 1)
    assert logs_to_await(job, Terms.of(job)) == ()


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (ReplicaExit(code=3), 3),
        (ReplicaExit(signal=9), 137),
        (ReplicaExit(code=143, cause="stopped"), None),
        (ReplicaExit(cause="lost"), None),
        (ReplicaExit(cause="never-started"), None),
    ],
)
def test_a_signal_counts_as_a_shell_reports_it_and_what_we_did_counts_as_nothing(
    status: ReplicaExit, code: int | None
) -> None:
    assert exit_code(status) == code
