"""What to do next about one job: a pure look at where it stands, repeated whenever anything changed.

The decision is level-triggered: it depends on what is recorded, on what the engine reports and on the time, never on
the order in which these became known. So it may be taken again after a crash or a lost race and comes out the same,
and every action is safe to repeat: transitions are compared and set, engine calls are idempotent, reports have fixed
ids.

Placing is not decided here, since that is a question between jobs; see `planning`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from services.scheduler.domain import progress
from services.scheduler.domain.placement import holds_capacity, nodes_of
from services.scheduler.domain.progress import Ending, Refusal, Replicas
from services.scheduler.domain.replacing import Replacement
from services.scheduler.domain.terms import Terms
from shared import events as ev
from shared.jobs import Job, JobState

REPORT_INTERVAL_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Fact:
    """A payload together with when it became true and the attempt that it is about."""

    payload: ev.Payload
    at: datetime
    attempt: int


@dataclass(frozen=True, slots=True)
class Append:
    """Put these transitions on record, all or none."""

    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Tell what happened to replicas."""

    changes: tuple[ev.ReplicaChange, ...]


@dataclass(frozen=True, slots=True)
class RequestDiagnosis:
    """Have the diagnoser look at the nodes of the present attempt; in a later round it tests `only` some."""

    nodes: tuple[str, ...]
    only: tuple[str, ...] = ()
    round: int = 1


@dataclass(frozen=True, slots=True)
class Replace:
    """Put on record that other nodes take the place of some, and why."""

    replacement: Replacement
    reason: str


@dataclass(frozen=True, slots=True)
class StartGang:
    """Have the engine start the present attempt."""


@dataclass(frozen=True, slots=True)
class StopGang:
    """Have the engine end the present attempt."""

    grace_s: float


@dataclass(frozen=True, slots=True)
class SaveData:
    """Have what the present attempt wrote brought to where it belongs."""


Action = Append | Report | RequestDiagnosis | Replace | StartGang | StopGang | SaveData


@dataclass(frozen=True, slots=True)
class Situation:
    """Where one job stands: its record, what the engine sees of its gang, and which calls this process has made.

    `seen` is None where the engine, once it has reported everything that it has, has told nothing of the gang; while
    `start_called` holds it is about to. An attempt with `unsaved` data goes on until it is saved, so that the next one
    finds it; `save_problem` says what is lost nevertheless. `waiting` has the reasons of replicas that do not run yet.
    `replacement` is what can be done about nodes that the diagnosis speaks against.
    """

    job: Job
    terms: Terms
    seen: Replicas | None
    start_called: bool = False
    stop_called: bool = False
    reported_at: datetime | None = None
    refusal: Refusal | None = None
    unsaved: bool = False
    save_called: bool = False
    save_problem: str = ""
    waiting: Mapping[str, str] = field(default_factory=dict)
    replacement: Replacement | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What to do now, in this order, and when to look again if nothing else happens."""

    actions: tuple[Action, ...] = ()
    look_again_at: datetime | None = None


def next_step(situation: Situation, now: datetime) -> Step:
    """What to do about a job that is not waiting for a place."""
    job = situation.job
    match job.state:
        case JobState.DIAGNOSING | JobState.STARTING | JobState.RUNNING | JobState.STOPPING if holds_capacity(job):
            return _attend(situation, now)
        case JobState.STOPPING:
            return _append(job, now, ev.Stopped(message=job.stop.reason if job.stop else ""))
        case JobState.DECIDING:
            return _decide(job, now)
        case JobState.RETRYING:
            return _queue_again(job, now)
        case _:
            return Step()


def _append(job: Job, now: datetime, *payloads: ev.Payload) -> Step:
    return Step((Append(tuple(Fact(payload, now, job.attempt.number) for payload in payloads)),))


def _decide(job: Job, now: datetime) -> Step:
    ended, decision = job.attempt.ended, job.attempt.decision
    if ended is not None and ended.reason is ev.EndReason.COMPLETED:
        return _append(job, now, ev.Succeeded())
    if ended is not None and ended.reason is ev.EndReason.PREEMPTED:
        return Step((Append((_queued_after_preemption(job, now),)),))
    if ended is None or decision is None or decision.retry:
        return Step()
    return _append(job, now, ev.Failed(reason=ended.reason, message=ended.message))


def _queued_after_preemption(job: Job, now: datetime) -> Fact:
    """It waits for a place once more, at no cost to its retries."""
    return Fact(ev.Queued(reason="preempted"), now, job.attempt.number + 1)


def _queue_again(job: Job, now: datetime) -> Step:
    decision = job.attempt.decision
    due = (decision.not_before if decision else None) or now
    if now < due:
        return Step(look_again_at=due)
    return Step((Append((Fact(ev.Queued(reason="retry"), now, job.attempt.number + 1),)),))


def _attend(situation: Situation, now: datetime) -> Step:
    """Look after an attempt whose gang may be running."""
    replicas = _known(situation, now)
    endings = _endings(situation, replicas, now)
    actions = (
        *_report(situation, replicas, now),
        *_diagnosis_request(situation.job, endings),
        *_replace(situation, endings),
        *_engine_calls(situation, replicas, endings, now),
        *_transitions(situation, replicas, endings, now),
    )
    return Step(actions, _look_again_at(situation, replicas, endings, actions, now))


def _known(situation: Situation, now: datetime) -> Replicas:
    replicas = progress.combine(situation.job.attempt, situation.seen or {})
    if situation.seen is not None or situation.start_called:
        return replicas
    return progress.without_engine(replicas, now, ending=bool(_endings(situation, replicas, now)))


def _endings(situation: Situation, replicas: Replicas, now: datetime) -> tuple[Ending, ...]:
    return progress.endings(
        situation.job,
        situation.terms,
        replicas,
        now,
        situation.refusal,
        situation.waiting,
        replaceable=situation.replacement is not None,
    )


def _report(situation: Situation, replicas: Replicas, now: datetime) -> Iterator[Report]:
    changes = progress.unreported(situation.job.attempt, replicas)
    if changes and now >= _report_due(situation, replicas, now):
        yield Report(changes)


def _report_due(situation: Situation, replicas: Replicas, now: datetime) -> datetime:
    """At once for the first news, the last start and the last end; else at most one report in each interval."""
    job = situation.job
    milestone = progress.all_ended(replicas) or (job.state is JobState.STARTING and progress.started_at(replicas))
    if milestone or situation.reported_at is None:
        return now
    return situation.reported_at + timedelta(seconds=REPORT_INTERVAL_S)


def _diagnosis_request(job: Job, endings: tuple[Ending, ...]) -> Iterator[RequestDiagnosis]:
    if job.state is JobState.DIAGNOSING and job.attempt.diagnosis_requested_at is None and not endings:
        replaced = job.attempt.replaced
        only = replaced[-1].change.taken if replaced else ()
        yield RequestDiagnosis(nodes_of(job.attempt), only, job.attempt.round)


def _replace(situation: Situation, endings: tuple[Ending, ...]) -> Iterator[Replace]:
    found = situation.job.attempt.diagnosis
    if situation.replacement is not None and found is not None and not endings:
        yield Replace(situation.replacement, found.message or "there are nodes without doubts about them")


def _engine_calls(
    situation: Situation, replicas: Replicas, endings: tuple[Ending, ...], now: datetime
) -> Iterator[StartGang | StopGang | SaveData]:
    if progress.all_ended(replicas):
        if situation.unsaved and not situation.save_called:
            yield SaveData()
        return
    if not endings:
        waiting = situation.job.state is JobState.STARTING and progress.started_at(replicas) is None
        if waiting and not situation.start_called:
            yield StartGang()
    elif now >= _stop_at(endings) and not situation.stop_called:
        yield StopGang(situation.terms.grace_s)


def _stop_at(endings: tuple[Ending, ...]) -> datetime:
    return min(ending.stop_at for ending in endings)


def _transitions(
    situation: Situation, replicas: Replicas, endings: tuple[Ending, ...], now: datetime
) -> Iterator[Append]:
    job = situation.job
    number = job.attempt.number
    facts = []
    running_since = progress.started_at(replicas)
    passed = job.attempt.diagnosis is not None and job.attempt.diagnosis.passed
    if job.state is JobState.DIAGNOSING and passed and not endings and situation.replacement is None:
        facts.append(Fact(ev.Admitted(), now, number))
    if job.state is JobState.STARTING and running_since is not None:
        facts.append(Fact(ev.Started(), running_since, number))
    if endings and progress.all_ended(replicas) and not situation.unsaved:
        ending = endings[0].despite(situation.save_problem)
        facts.append(Fact(ending.event(), now, number))
        if ending.reason is ev.EndReason.COMPLETED:
            facts.append(Fact(ev.Succeeded(), now, number))
        elif job.stop is not None:
            facts.append(Fact(ev.Stopped(message=job.stop.reason), now, number))
        elif ending.reason is ev.EndReason.PREEMPTED:
            facts.append(_queued_after_preemption(job, now))
    if facts:
        yield Append(tuple(facts))


def _look_again_at(
    situation: Situation, replicas: Replicas, endings: tuple[Ending, ...], actions: tuple[Action, ...], now: datetime
) -> datetime | None:
    times = [progress.next_deadline(situation.job, situation.terms, replicas)]
    if endings and not situation.stop_called:
        times.append(_stop_at(endings))
    if situation.reported_at is not None and not any(isinstance(action, Report) for action in actions):
        times.append(situation.reported_at + timedelta(seconds=REPORT_INTERVAL_S))
    return min((time for time in times if time is not None and time > now), default=None)
