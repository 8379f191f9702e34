"""How a gang is doing: what each replica did, what of that is not told yet, and why the attempt ends.

What is known of a replica is what was recorded of it, completed by what the engine says now; knowledge only grows. From
it follows the list of everything that ends the attempt: a replica that failed, the deciding roles having succeeded, a
deadline, a stop request. The earliest of them is the reason, whatever came in its wake (survivors that die of a dead
peer, replicas that we stopped). So the reason is the same however often it is asked, also after a restart.

The first failure gives the others ten seconds for their last words; every other reason stops them at once. A hang that
the watchdog wants stopped ends the attempt when its evidence is on record, or a minute after it was noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile
from typing import Final

from services.scheduler.domain.holdups import holdups_sentence
from services.scheduler.domain.terms import REPLACEMENTS_MAX, Terms, hang_deadline, last_words_deadline
from shared.clock import rfc3339
from shared.events import AttemptEnded, EndReason, OutOfMemory, ReplicaChange, ReplicaExit, ReplicaRef
from shared.jobs import Attempt, Job, Replica, evidence_of
from shared.signals import signal_words
from shared.units import format_duration

Replicas = Mapping[str, Replica]

# How often in a row a job may find its place taken by others before that counts as a failure of the platform.
DISPLACEMENTS_MAX: Final = 5
_FAILURE: Final = {"lost": EndReason.PLATFORM}


@dataclass(frozen=True, slots=True)
class Ending:
    """One thing that ends the attempt: why, since when, and when those that still run are told to stop."""

    reason: EndReason
    at: datetime
    stop_at: datetime
    message: str
    failure: Replica | None = None

    def despite(self, problem: str) -> Ending:
        """The same where something was lost in the end; success is none then."""
        if not problem:
            return self
        reason = EndReason.PLATFORM if self.reason is EndReason.COMPLETED else self.reason
        return replace(self, reason=reason, message="; ".join(filter(None, (self.message, problem))))

    def event(self) -> AttemptEnded:
        """The end as it goes on record."""
        failed = self.failure
        first = ReplicaRef(role=failed.role, index=failed.index) if failed else None
        return AttemptEnded(
            reason=self.reason, message=self.message, first_failure=first, exit=failed.exit if failed else None
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """The engine said that it cannot start this gang, now or later; a displaced one may be started in another place."""

    at: datetime
    message: str
    displaced: bool = False


def combine(attempt: Attempt, seen: Replicas) -> dict[str, Replica]:
    """Every replica of the attempt with all that is known of it; what is on record is not changed by what is seen."""
    return {key: _completed(replica, seen.get(key)) for key, replica in attempt.replicas.items()}


def _completed(recorded: Replica, seen: Replica | None) -> Replica:
    if seen is None or recorded.exit is not None or (seen.exit is None and recorded.started_at == seen.started_at):
        return recorded
    return recorded.model_copy(
        update={
            "started_at": recorded.started_at or seen.started_at,
            "ended_at": seen.ended_at,
            "exit": seen.exit,
        }
    )


def without_engine(replicas: Replicas, now: datetime, *, ending: bool) -> dict[str, Replica]:
    """The replicas of a gang that the engine does not know: those that had started are lost, and the attempt with them.

    A gang of which nothing ever started may still be started, unless the attempt is `ending` anyway.
    """
    ending = ending or any(replica.started_at and not replica.exit for replica in replicas.values())
    lost = ReplicaExit(cause="lost", message="the engine knows nothing of it any more")
    never = ReplicaExit(cause="never-started", message="the attempt ended before it was started")
    settled = {}
    for key, replica in replicas.items():
        fate = lost if replica.started_at else never if ending else None
        known = replica.exit is not None or fate is None
        settled[key] = replica if known else replica.model_copy(update={"ended_at": now, "exit": fate})
    return settled


def unreported(attempt: Attempt, replicas: Replicas) -> tuple[ReplicaChange, ...]:
    """What happened to the replicas beyond what is on record, in the order of roles and indexes."""
    changes = [change for key, replica in replicas.items() for change in _changes(attempt.replicas[key], replica)]
    return tuple(changes)


def _changes(recorded: Replica, known: Replica) -> Iterator[ReplicaChange]:
    role, index, node = known.role, known.index, known.node
    if known.started_at and not recorded.started_at:
        yield ReplicaChange(role=role, index=index, node=node, state="started", at=known.started_at)
    if known.exit and known.ended_at and not recorded.exit:
        yield ReplicaChange(role=role, index=index, node=node, state="exited", at=known.ended_at, exit=known.exit)


def started_at(replicas: Replicas) -> datetime | None:
    """When the last replica started; None while one has not."""
    times = [replica.started_at for replica in replicas.values()]
    known = [time for time in times if time is not None]
    return max(known, default=None) if len(known) == len(times) else None


def all_ended(replicas: Replicas) -> bool:
    """Whether the end of every replica is confirmed."""
    return all(replica.exit is not None for replica in replicas.values())


def endings(
    job: Job,
    terms: Terms,
    replicas: Replicas,
    now: datetime,
    refusal: Refusal | None = None,
    waiting: Mapping[str, str] | None = None,
    *,
    replaceable: bool = False,
) -> tuple[Ending, ...]:
    """Everything that ends the present attempt, the earliest first; nothing while it goes on.

    A diagnosis that failed ends it, unless the nodes that failed are `replaceable`.
    """
    # Of things that happened in the same millisecond, which is how exactly times are kept, the later in this list are
    # consequences of the earlier: replicas that never started are what a refusal leaves behind.
    candidates = [
        *_completion(terms, replicas.values()),
        *([_refused(job, refusal)] if refusal else []),
        *_stop_request(job),
        *_preemption(job.attempt),
        *(() if replaceable else _failed_diagnosis(job.attempt)),
        *(deadline for deadline in _deadlines(job.attempt, terms, replicas, waiting or {}) if deadline.at <= now),
        *_failures(job, replicas.values()),
    ]
    return tuple(sorted(candidates, key=lambda ending: rfc3339(ending.at))) or _unexplained(replicas)


def next_deadline(job: Job, terms: Terms, replicas: Replicas) -> datetime | None:
    """The instant at which time itself will end the attempt."""
    return min((ending.at for ending in _deadlines(job.attempt, terms, replicas, {})), default=None)


def _completion(terms: Terms, replicas: Iterable[Replica]) -> Iterator[Ending]:
    deciding = [replica for replica in replicas if replica.role in terms.deciding_roles]
    times = [replica.ended_at for replica in deciding if replica.ended_at and replica.exit and replica.exit.succeeded]
    if deciding and len(times) == len(deciding):
        at = max(times)
        yield Ending(EndReason.COMPLETED, at, at, "")


def _failures(job: Job, replicas: Iterable[Replica]) -> Iterator[Ending]:
    for replica in replicas:
        failed = replica.exit is not None and not replica.exit.succeeded and replica.exit.cause != "stopped"
        if failed and replica.exit and replica.ended_at:
            at, displaced = replica.ended_at, replica.exit.displaced
            reason = _displacement(job) if displaced else _FAILURE.get(replica.exit.cause, EndReason.FAILED)
            stop_at = at if displaced else last_words_deadline(at)
            yield Ending(reason, at, stop_at, describe_exit(replica, replica.exit), replica)


def _refused(job: Job, refusal: Refusal) -> Ending:
    reason = _displacement(job) if refusal.displaced else EndReason.FAILED
    return Ending(reason, refusal.at, refusal.at, refusal.message)


def _displacement(job: Job) -> EndReason:
    """It may try another place at no cost to its retries, but not for ever."""
    preempted = takewhile(_was_displaced, reversed(job.attempts[:-1]))
    return EndReason.PLATFORM if sum(1 for _ in preempted) >= DISPLACEMENTS_MAX else EndReason.PREEMPTED


def _was_displaced(attempt: Attempt) -> bool:
    """An attempt that ended as preempted though nobody in here asked for it."""
    preempted = attempt.ended is not None and attempt.ended.reason is EndReason.PREEMPTED
    return preempted and attempt.preemption is None


def _stop_request(job: Job) -> Iterator[Ending]:
    if job.stop is not None and job.stop_requested_at is not None:
        at = job.stop_requested_at
        yield Ending(EndReason.STOPPED, at, at, job.stop.reason or "a stop was requested")


def _preemption(attempt: Attempt) -> Iterator[Ending]:
    if attempt.preemption is not None and attempt.preempted_at is not None:
        at = attempt.preempted_at
        yield Ending(EndReason.PREEMPTED, at, at, attempt.preemption.message)


def _failed_diagnosis(attempt: Attempt) -> Iterator[Ending]:
    found, at = attempt.diagnosis, attempt.diagnosed_at
    if found is not None and at is not None and not found.passed and attempt.admitted_at is None:
        message = found.message or "the diagnosis of the nodes failed"
        yield Ending(EndReason.DIAGNOSIS, at, at, f"{message}; {_why_not_replaced(attempt)}")


def _why_not_replaced(attempt: Attempt) -> str:
    times = len(attempt.replaced)
    if times >= REPLACEMENTS_MAX:
        return f"nodes were replaced {times} times already"
    return "no other nodes are free to take their place"


def is_diagnosing(attempt: Attempt) -> bool:
    """Whether the attempt is placed and its nodes are still to be found well."""
    return attempt.placement is not None and attempt.placement.diagnosing and attempt.admitted_at is None


def _deadlines(attempt: Attempt, terms: Terms, replicas: Replicas, waiting: Mapping[str, str]) -> Iterator[Ending]:
    if is_diagnosing(attempt):
        began_at = attempt.round_began_at
        if attempt.diagnosis is None and began_at is not None:
            at = terms.diagnosis_deadline(began_at)
            limit = format_duration(terms.round_s)
            yield Ending(EndReason.DIAGNOSIS, at, at, f"the diagnosis of the nodes gave no result within {limit}")
        return
    begun = attempt.admitted_at or attempt.placed_at
    running_since = started_at(replicas)
    if running_since is None and begun is not None:
        at = terms.start_deadline(begun)
        limit = format_duration(terms.start_timeout_s)
        holdups = holdups_sentence(waiting)
        message = f"not every replica ran within {limit} of placement{f' ({holdups})' if holdups else ''}"
        yield Ending(EndReason.START_TIMEOUT, at, at, message)
    at_most = terms.run_deadline(running_since) if running_since else None
    if at_most is not None:
        limit = format_duration(terms.max_run_time_s or 0)
        yield Ending(EndReason.MAX_RUN_TIME, at_most, at_most, f"the attempt ran for its maxRunTime of {limit}")
    yield from _hangs(attempt)


def _hangs(attempt: Attempt) -> Iterator[Ending]:
    for incident in attempt.incidents:
        noticed_at = incident.at or attempt.placed_at
        if incident.action == "stop" and noticed_at is not None:
            evidence = evidence_of(attempt, incident.rule, noticed_at)
            deadline = hang_deadline(noticed_at)
            at = min(evidence.at, deadline) if evidence else deadline
            yield Ending(EndReason.HANG, at, at, incident.line)


def _unexplained(replicas: Replicas) -> tuple[Ending, ...]:
    """Everything ended and nobody asked for it: somebody stopped the replicas behind the job's back."""
    times = [replica.ended_at for replica in replicas.values() if replica.ended_at]
    if not times or not all_ended(replicas):
        return ()
    at = max(times)
    return (Ending(EndReason.PLATFORM, at, at, "the platform stopped the replicas"),)


def describe_exit(replica: Replica, end: ReplicaExit) -> str:
    """A sentence on how a replica ended."""
    who = f"replica {replica.role}-{replica.index} on node {replica.where}"
    if end.cause == "never-started":
        return f"{who} could not be started: {end.message or 'the engine gave no reason'}"
    if end.cause == "lost":
        return f"{who} was lost: {end.message or 'the engine gave no reason'}"
    how = f"was killed by {signal_words(end.signal)}" if end.signal else f"exited with code {end.code}"
    memory = {
        OutOfMemory.NONE: "",
        OutOfMemory.SUSPECTED: "; it may have run out of memory",
        OutOfMemory.CERTAIN: "; it ran out of memory",
    }
    return f"{who} {how}{memory[end.out_of_memory]}"
