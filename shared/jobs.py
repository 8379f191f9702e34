"""What a job is: the fold of its events, and the only table of which event is allowed in which state.

`fold` takes a job (None before the first event) and one recorded event and gives the job after it. State events carry
the sequence that the stream gave them: one that is not newer than the job is a repeat and changes nothing; a new one
must be allowed by `ALLOWED_IN`, else `IllegalTransitionError`. Observations may come late, twice or in another order;
folding them only ever adds knowledge (a replica that exited does not start again in the same attempt).

`Job.sequence` is the sequence of the job's last state event: what a writer compares and sets, and the job's ETag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeVar

from shared import events as ev
from shared.attempts import Attempt, Record, Replaced, Replica, ReplicaState, evidence_of, replica_key, replicas_of
from shared.errors import TrainmasterError
from shared.events import Event, Payload

__all__ = [
    "ALLOWED_IN",
    "ENDED",
    "HOLDING",
    "LIVE",
    "Attempt",
    "IllegalTransitionError",
    "Job",
    "JobState",
    "Recorded",
    "Replaced",
    "Replica",
    "ReplicaState",
    "evidence_of",
    "fold",
    "fold_all",
    "replica_key",
]


class IllegalTransitionError(TrainmasterError):
    """A state event that the job's state does not allow."""

    code = "conflict"

    def __init__(self, job: str, state: JobState | None, event_type: str) -> None:
        super().__init__(f"job {job} is {state or 'not submitted'}; {event_type} is not allowed then")
        self.job = job
        self.state = state
        self.event_type = event_type


class JobState(StrEnum):
    """Public states of a job."""

    QUEUED = "Queued"
    DIAGNOSING = "Diagnosing"
    STARTING = "Starting"
    RUNNING = "Running"
    STOPPING = "Stopping"
    DECIDING = "Deciding"
    RETRYING = "Retrying"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"


ENDED: Final = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED})
LIVE: Final = frozenset(JobState) - ENDED
HOLDING: Final = frozenset({JobState.DIAGNOSING, JobState.STARTING, JobState.RUNNING, JobState.STOPPING})
_CLOSING: Final = frozenset({JobState.DECIDING, JobState.STOPPING})

ALLOWED_IN: Final[Mapping[type[Payload], frozenset[JobState]]] = {
    # A gang that made room for another is queued again without a decision.
    ev.Queued: frozenset({JobState.RETRYING, JobState.DECIDING}),
    ev.Placed: frozenset({JobState.QUEUED}),
    ev.PlacementChanged: frozenset({JobState.DIAGNOSING}),
    ev.Admitted: frozenset({JobState.DIAGNOSING}),
    ev.Started: frozenset({JobState.STARTING}),
    ev.StopRequested: LIVE - {JobState.STOPPING},
    ev.PreemptionRequested: HOLDING - {JobState.STOPPING},
    ev.AttemptEnded: HOLDING,
    ev.RetryDecided: frozenset({JobState.DECIDING}),
    ev.Succeeded: _CLOSING,
    ev.Failed: _CLOSING,
    ev.Stopped: _CLOSING,
    ev.Deleted: ENDED,
}


class Job(Record):
    """A job as its events tell it."""

    id: str
    owner: str
    project: str
    submitted: ev.Submitted
    submitted_at: datetime
    submitted_sequence: int
    state: JobState
    sequence: int
    attempts: tuple[Attempt, ...]
    stop: ev.StopRequested | None = None
    stop_requested_at: datetime | None = None
    ended_at: datetime | None = None
    reason: str = ""
    message: str = ""
    deleted: bool = False
    traceparent: str | None = None

    @property
    def name(self) -> str:
        """Name the user gave it."""
        return self.submitted.name

    @property
    def attempt(self) -> Attempt:
        """The present (or last) attempt."""
        return self.attempts[-1]

    @property
    def ended(self) -> bool:
        """Whether nothing will happen to the job any more."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event as the stream holds it."""

    sequence: int
    subject: str
    event: Event


def fold(job: Job | None, recorded: Recorded) -> Job | None:
    """The job after the event; raises IllegalTransitionError where a state event is not allowed."""
    payload = recorded.event.data
    if isinstance(payload, ev.Submitted):
        return job or _submitted(recorded, payload)
    if job is None:
        return _refuse_state_event(job, recorded)
    if payload.KIND == "obs":
        return _observe(job, recorded.event)
    if payload.KIND != "state" or recorded.sequence <= job.sequence:
        return job
    if job.deleted or job.state not in ALLOWED_IN[type(payload)]:
        return _refuse_state_event(job, recorded)
    moved = _MOVES[type(payload)](job, recorded.event)
    return moved.but(sequence=recorded.sequence)


def fold_all(history: Iterable[Recorded]) -> Job | None:
    """The job after all of its events, in stream order."""
    job: Job | None = None
    for recorded in history:
        job = fold(job, recorded)
    return job


def _refuse_state_event(job: Job | None, recorded: Recorded) -> Job | None:
    if recorded.event.data.KIND != "state":
        return job
    raise IllegalTransitionError(recorded.event.subject, job.state if job else None, recorded.event.type)


def _submitted(recorded: Recorded, payload: ev.Submitted) -> Job:
    event = recorded.event
    return Job(
        id=event.subject,
        owner=event.owner or "",
        project=event.project or "",
        submitted=payload,
        submitted_at=event.time,
        submitted_sequence=recorded.sequence,
        state=JobState.QUEUED,
        sequence=recorded.sequence,
        attempts=(Attempt(number=1, queued_at=event.time),),
        traceparent=event.traceparent,
    )


def _with_attempt(job: Job, attempt: Attempt, **changes: object) -> Job:
    attempts = tuple(attempt if a.number == attempt.number else a for a in job.attempts)
    return job.but(attempts=attempts, **changes)


def _queued(job: Job, event: Event) -> Job:
    further = Attempt(number=job.attempt.number + 1, queued_at=event.time)
    return job.but(attempts=(*job.attempts, further), state=JobState.QUEUED)


def _placed(job: Job, event: Event) -> Job:
    placement = _expect(event.data, ev.Placed)
    attempt = job.attempt.but(placement=placement, placed_at=event.time, replicas=replicas_of(placement.roles))
    return _with_attempt(job, attempt, state=JobState.DIAGNOSING if placement.diagnosing else JobState.STARTING)


def _placement_changed(job: Job, event: Event) -> Job:
    """The next round of the diagnosis begins; what was found in the last one goes with the nodes."""
    change, before = _expect(event.data, ev.PlacementChanged), job.attempt
    if before.placement is None:
        return job
    attempt = before.but(
        placement=before.placement.model_copy(update={"roles": change.roles}),
        replicas={key: _moved(before.replicas.get(key), new) for key, new in replicas_of(change.roles).items()},
        replaced=(*before.replaced, Replaced(change=change, at=event.time, diagnosis=before.diagnosis)),
        diagnosis_requested_at=None,
        diagnosis=None,
        diagnosed_at=None,
    )
    return _with_attempt(job, attempt)


def _moved(old: Replica | None, new: Replica) -> Replica:
    """What was observed of a replica that stays where it was still holds."""
    return old if old is not None and old.node == new.node else new


def _admitted(job: Job, event: Event) -> Job:
    attempt = job.attempt.but(admitted_at=event.time)
    return _with_attempt(job, attempt, state=JobState.STARTING)


def _started(job: Job, event: Event) -> Job:
    attempt = job.attempt.but(started_at=event.time)
    return _with_attempt(job, attempt, state=JobState.RUNNING)


def _stop_requested(job: Job, event: Event) -> Job:
    return job.but(state=JobState.STOPPING, stop=event.data, stop_requested_at=event.time)


def _preemption_requested(job: Job, event: Event) -> Job:
    attempt = job.attempt.model_copy(update={"preemption": event.data, "preempted_at": event.time})
    return _with_attempt(job, attempt)


def _attempt_ended(job: Job, event: Event) -> Job:
    attempt = job.attempt.but(ended=event.data, ended_at=event.time)
    state = JobState.STOPPING if job.state is JobState.STOPPING else JobState.DECIDING
    return _with_attempt(job, attempt, state=state)


def _retry_decided(job: Job, event: Event) -> Job:
    decision = _expect(event.data, ev.RetryDecided)
    attempt = job.attempt.but(decision=decision, decided_at=event.time)
    return _with_attempt(job, attempt, state=JobState.RETRYING if decision.retry else JobState.DECIDING)


def _end(state: JobState) -> Callable[[Job, Event], Job]:
    def end(job: Job, event: Event) -> Job:
        reason = event.data.reason if isinstance(event.data, ev.Failed) else state.lower()
        message = getattr(event.data, "message", "")
        return job.but(state=state, ended_at=event.time, reason=reason, message=message)

    return end


def _deleted(job: Job, _event: Event) -> Job:
    return job.but(deleted=True)


_MOVES: Final[Mapping[type[Payload], Callable[[Job, Event], Job]]] = {
    ev.Queued: _queued,
    ev.Placed: _placed,
    ev.PlacementChanged: _placement_changed,
    ev.Admitted: _admitted,
    ev.Started: _started,
    ev.StopRequested: _stop_requested,
    ev.PreemptionRequested: _preemption_requested,
    ev.AttemptEnded: _attempt_ended,
    ev.RetryDecided: _retry_decided,
    ev.Succeeded: _end(JobState.SUCCEEDED),
    ev.Failed: _end(JobState.FAILED),
    ev.Stopped: _end(JobState.STOPPED),
    ev.Deleted: _deleted,
}


def _observe(job: Job, event: Event) -> Job:
    attempt = next((a for a in job.attempts if a.number == event.attempt), None)
    changes = _observed(attempt, event) if attempt is not None else {}
    return _with_attempt(job, attempt.but(**changes)) if attempt is not None and changes else job


def _observed(attempt: Attempt, event: Event) -> dict[str, object]:
    """What an observation adds to its attempt."""
    match event.data:
        case ev.ReplicasChanged(changes=changes):
            return {"replicas": _after(attempt.replicas, changes)}
        case ev.IncidentRaised() | ev.EvidenceCollected() | ev.ProgressReported() | ev.BurnInJudged() as noticed:
            return _noticed(attempt, noticed)
        case ev.CodeResolved() as code if attempt.code is None:
            return {"code": code}
        case ev.DiagnosisRequested(round=attempt.round):
            return {"diagnosis_requested_at": event.time}
        case ev.DiagnosisFinished(round=attempt.round) as diagnosis if attempt.diagnosis is None:
            return {"diagnosis": diagnosis, "diagnosed_at": event.time}
        case _:
            return {}


def _noticed(
    attempt: Attempt, noticed: ev.IncidentRaised | ev.EvidenceCollected | ev.ProgressReported | ev.BurnInJudged
) -> dict[str, object]:
    if isinstance(noticed, ev.BurnInJudged):
        return {} if attempt.burn_in else {"burn_in": noticed}
    if isinstance(noticed, ev.ProgressReported):
        is_newer = attempt.progress is None or attempt.progress.at < noticed.at
        return {"progress": noticed} if is_newer else {}
    if isinstance(noticed, ev.IncidentRaised):
        return {"incidents": (*attempt.incidents, noticed)} if noticed not in attempt.incidents else {}
    is_new = evidence_of(attempt, noticed.rule, noticed.noticed_at) is None
    return {"evidence": (*attempt.evidence, noticed)} if is_new else {}


def _after(replicas: Mapping[str, Replica], changes: Iterable[ev.ReplicaChange]) -> dict[str, Replica]:
    known = dict(replicas)
    for change in changes:
        key = replica_key(change.role, change.index)
        if key in known and change.node in ("", known[key].node):
            known[key] = _changed(known[key], change)
    return known


def _changed(replica: Replica, change: ev.ReplicaChange) -> Replica:
    if change.state == "started":
        return replica if replica.started_at else replica.but(started_at=change.at)
    if replica.exit is not None:
        return replica
    return replica.but(ended_at=change.at, exit=change.exit or ev.ReplicaExit())


PayloadT = TypeVar("PayloadT", bound=Payload)


def _expect(payload: Payload, kind: type[PayloadT]) -> PayloadT:
    if not isinstance(payload, kind):
        raise TypeError(f"expected {kind.__name__}, got {type(payload).__name__}")
    return payload
