"""A hang is silence of every replica for the whole limit: never told early, never twice, also over restarts."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.watchdog.domain.silence import (
    HANG,
    HANG_AT_EXIT,
    HANG_FROM_START,
    HANG_WARNING,
    JUMP_S,
    SETTLE_S,
    TOLD_MAX,
    Heard,
    Hearing,
    silence_of,
)
from services.watchdog.domain.silence import judge as judge_silence
from services.watchdog.domain.terms import NO_RETRY, Terms
from shared import events as ev
from shared.events import IncidentRaised
from shared.jobs import Job
from shared.jobspec.models import Retry
from tests.support.jobs import job_after, placed

ON_HANG = Retry.model_validate({"maxRetries": 1, "on": {"hang": True}})
LIMIT_S = 60.0
TERMS = Terms(NO_RETRY, LIMIT_S)
RUNNING = job_after(placed(), ev.Started())
STARTED = RUNNING.attempt.started_at
assert STARTED is not None


def after(seconds: float) -> datetime:
    return STARTED + timedelta(seconds=seconds)


def with_incidents(job: Job, *incidents: IncidentRaised) -> Job:
    attempt = job.attempt.model_copy(update={"incidents": (*job.attempt.incidents, *incidents)})
    return job.model_copy(update={"attempts": (attempt,)})


def judge(
    job: Job, terms: Terms, last_output_at: datetime | None, now: datetime, **phases: str
) -> IncidentRaised | None:
    heard = Heard(last_output_at, {name.replace("_", "-"): phase for name, phase in phases.items()})
    return judge_silence(job, silence_of(job, terms, heard), now, stops=terms.retries_hangs)


def rule_at(seconds: float, output: float | None = None, job: Job = RUNNING, terms: Terms = TERMS) -> str | None:
    incident = judge(job, terms, after(output) if output is not None else None, after(seconds))
    return incident.rule if incident else None


def test_a_third_of_the_limit_is_worth_a_warning_and_the_limit_is_a_hang() -> None:
    assert [rule_at(seconds, output=0) for seconds in (19, 20, 59, 60)] == [None, HANG_WARNING, HANG_WARNING, HANG]


def test_silence_counts_from_the_last_byte_of_any_replica() -> None:
    assert [rule_at(seconds, output=50) for seconds in (69, 70, 109, 110)] == [None, HANG_WARNING, HANG_WARNING, HANG]


def test_silence_before_every_replica_ran_does_not_count() -> None:
    assert rule_at(59, output=-500) == HANG_WARNING
    starting = job_after(placed())
    assert judge(starting, TERMS, None, after(10_000)) is None


@pytest.mark.parametrize("payload", [ev.StopRequested(by="u"), ev.AttemptEnded(reason=ev.EndReason.FAILED)])
def test_a_job_that_is_not_running_is_not_judged(payload: ev.Payload) -> None:
    assert rule_at(10_000, job=job_after(placed(), ev.Started(), payload)) is None


def test_a_job_that_asks_for_no_hang_detection_is_not_judged() -> None:
    assert rule_at(10_000, terms=Terms(ON_HANG, None)) is None


def test_only_a_hang_that_is_to_be_retried_stops_the_attempt() -> None:
    for terms, action in ((TERMS, "none"), (Terms(ON_HANG, LIMIT_S), "stop")):
        incident = judge(RUNNING, terms, after(0), after(61))
        assert incident is not None
        assert incident.action == action
        assert incident.line == "no replica has written anything for 1m, since 2026-01-01T00:00:03.000Z"
        warning = judge(RUNNING, terms, None, after(30))
        assert warning is not None
        assert warning.action == "none"


def test_each_silence_is_told_once_and_the_next_one_again() -> None:
    incident = judge(RUNNING, TERMS, after(0), after(60))
    assert incident is not None
    told = with_incidents(RUNNING, incident)
    assert rule_at(61, output=0, job=told) is None
    assert rule_at(200, output=100, job=told) == HANG


def test_a_job_that_keeps_falling_silent_is_told_so_many_times_only() -> None:
    told = [IncidentRaised(rule=HANG, line=str(number)) for number in range(TOLD_MAX)]
    assert rule_at(61, output=0, job=with_incidents(RUNNING, *told)) is None
    assert rule_at(61, output=0, job=with_incidents(RUNNING, *told), terms=Terms(ON_HANG, LIMIT_S)) == HANG


def test_a_job_that_never_wrote_anything_is_told_so() -> None:
    incident = judge(RUNNING, TERMS, None, after(60))
    assert incident is not None
    assert incident.rule == HANG_FROM_START
    assert incident.line == "no replica has ever written anything, for 1m, since 2026-01-01T00:00:03.000Z"


PHASES = Terms(NO_RETRY, LIMIT_S, {"checkpoint": 300.0, "probe": 6.0})


@pytest.mark.parametrize(
    ("phases", "limit_s"),
    [
        ({"worker_0": "checkpoint"}, 300),
        ({"worker_0": "checkpoint", "worker_1": "training"}, 300),
        ({"worker_0": "training", "worker_1": "training"}, 60),
        ({"worker_0": "probe"}, 60),
        ({"worker_0": "probe", "worker_1": "probe"}, 6),
    ],
)
def test_a_declared_phase_has_its_own_limit_and_the_longest_of_all_replicas_holds(
    phases: dict[str, str], limit_s: int
) -> None:
    before = judge(RUNNING, PHASES, after(0), after(limit_s - 1), **phases)
    assert before is None or before.rule == HANG_WARNING
    told = judge(RUNNING, PHASES, after(0), after(limit_s), **phases)
    assert told is not None
    assert told.rule == HANG
    assert ("in phase" in told.line) == (limit_s != 60)


def with_ended(*indices: int, code: int = 0) -> Job:
    changes = tuple(
        ev.ReplicaChange(role="worker", index=index, state="exited", at=after(10), exit=ev.ReplicaExit(code=code))
        for index in indices
    )
    return job_after(placed(), ev.Started(), ev.ReplicasChanged(changes=changes))


EXITS = Terms(NO_RETRY, LIMIT_S, exit_silence_s=20.0, deciding_roles=frozenset({"worker"}))


def test_a_replica_that_ended_well_while_the_other_never_ends_is_a_hang_sooner() -> None:
    job = with_ended(0)
    assert [rule_at(seconds, output=0, job=job, terms=EXITS) for seconds in (16, 29, 30)] == [
        None,
        HANG_WARNING,
        HANG_AT_EXIT,
    ]


def test_an_end_that_decides_nothing_shortens_no_silence() -> None:
    others = Terms(NO_RETRY, LIMIT_S, exit_silence_s=20.0, deciding_roles=frozenset({"master"}))
    assert rule_at(50, output=0, job=with_ended(0), terms=others) == HANG_WARNING
    assert rule_at(50, output=0, job=with_ended(0, code=1), terms=EXITS) == HANG_WARNING


def heard(*looks: tuple[float, bool]) -> Hearing:
    hearing = Hearing()
    for seconds, hears in looks:
        hearing = hearing.looked(after(seconds), hears=hears)
    return hearing


def every_second(start: int, stop: int) -> list[tuple[float, bool]]:
    return [(float(second), True) for second in range(start, stop + 1)]


def test_silence_is_believed_some_seconds_after_a_start() -> None:
    assert not heard(*every_second(0, 9)).settled(after(9))
    assert heard(*every_second(0, 10)).settled(after(10))


def test_silence_is_not_believed_while_and_shortly_after_nothing_was_heard() -> None:
    looks = [*every_second(0, 100), (101, False), *every_second(102, 105)]
    assert not heard(*looks).settled(after(105))
    assert heard(*looks, *every_second(106, 112)).settled(after(112))


@pytest.mark.parametrize("jump", [3600, -3600, JUMP_S + 1])
def test_a_clock_that_jumped_is_like_a_start(jump: float) -> None:
    jumped = heard(*every_second(0, 100), (100 + jump, True))
    assert not jumped.settled(after(100 + jump))
    assert not jumped.settled(after(100 + jump + SETTLE_S - 1))


@given(
    outputs=st.lists(st.integers(0, 400), max_size=12).map(sorted),
    restarts=st.lists(st.tuples(st.integers(0, 500), st.integers(1, 120)), max_size=3),
)
def test_a_hang_is_told_when_the_limit_is_over_and_no_sooner_over_any_restarts(
    outputs: list[int], restarts: list[tuple[int, int]]
) -> None:
    """One watchdog after another looks every second; bytes written while none was there come when the next begins."""
    away = {second for start, length in restarts for second in range(start, start + length)}
    job, hearing, told_at = RUNNING, Hearing(), None
    for second in range(700):
        if second in away:
            hearing = Hearing()
            continue
        hearing = hearing.looked(after(second), hears=True)
        arrived = [output for output in outputs if output <= second]
        last = after(max(arrived)) if arrived else None
        incident = judge(job, TERMS, last, after(second)) if hearing.settled(after(second)) else None
        if incident is not None:
            job = with_incidents(job, incident)
            if incident.rule in (HANG, HANG_FROM_START) and told_at is None:
                told_at = second
    borders = [0, *outputs]
    due = next((a + 60 for a, b in zip(borders, [*outputs, 10_000], strict=True) if b - a > 60), None)
    assert due is not None
    assert told_at is not None
    # No sooner than some silence of the full limit, and within the settling time of when it could be known.
    silences = [(a, b) for a, b in zip(borders, [*outputs, 10_000], strict=True) if b - a >= 60]
    assert any(a + 60 <= told_at <= b for a, b in silences)
    undisturbed = not any(due - SETTLE_S - 2 <= second <= due for second in away)
    if undisturbed:
        assert told_at == max(due, int(SETTLE_S))
    lines = [each.line for each in job.attempt.incidents if each.rule in (HANG, HANG_FROM_START)]
    assert len(lines) == len(set(lines))
