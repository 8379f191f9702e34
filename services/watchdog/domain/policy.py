"""Whether there will be another attempt: pure, so that a repeat comes out the same.

A decision is due only in Deciding: an attempt that completed or was stopped raises no question. What the platform did
(it preempted the job, or lost the machines) is answered with another attempt that it pays for itself. Else what ended
the attempt chooses the condition that is asked: a hang `retry.on.hang`, a failed diagnosis `retry.on.diagnosisFailure`,
every other end `retry.on.failure` with its policy. The policy names the first rule that holds, with the replica and the
line; a chain that only repeats itself is stopped (`chain`); then the budget is looked at, since every retry that was
decided before has used one of `maxRetries`.

What counts of a failed attempt:

- exit codes: those of the replicas that failed by themselves, the first failure first; a signal counts as 128 + its
  number; replicas that the platform stopped, lost or never started have none;
- messages and preset rows: lines of every replica that did not succeed, those included that were stopped after their
  last words. `ExitCodeAndErrorMsg` looks at failed replicas only, and code and message must be of the same one;
- the root cause over the same replicas (`rootcause`), whose class decides under `Advanced` where nothing else does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from services.watchdog.domain import chain, classes
from services.watchdog.domain.chain import Reach
from services.watchdog.domain.found import Found
from services.watchdog.domain.rootcause import Catalogue, root_cause
from services.watchdog.domain.rules import FailureClass
from services.watchdog.domain.terms import Terms, messages
from services.watchdog.domain.verdict import Verdict
from services.watchdog.domain.wording import describe, end_code, exit_code, how_it_ended, name_of
from shared.events import (
    AttemptEnded,
    Cause,
    EndReason,
    IncidentRaised,
    Progress,
    ReplicaExit,
    ReplicaRef,
    RetryDecided,
)
from shared.jobs import Attempt, Job, JobState, Replica
from shared.jobspec.models import FailureRetry

MAX_OTHERS: Final = 20
MAX_OTHER_LINE: Final = 200
PLATFORM_RETRIES_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Heard:
    """What is heard of an attempt: lines that were found, how far its logs say it came, and what it saved."""

    found: tuple[Found, ...] = ()
    progress: Progress | None = None
    checkpoint: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """An ended attempt of a job, with everything that counts in the decision about it."""

    job: Job
    attempt: Attempt
    ended: AttemptEnded
    terms: Terms
    catalogue: Catalogue
    lines: tuple[Found, ...]
    cause: Cause | None
    reach: Reach


def is_due(job: Job) -> bool:
    """Whether the job waits for a decision."""
    ended = job.attempt.ended
    waits = job.state is JobState.DECIDING and job.attempt.decision is None
    return waits and ended is not None and ended.reason is not EndReason.COMPLETED


def logs_to_await(job: Job, terms: Terms) -> tuple[ReplicaRef, ...]:
    """Replicas whose logs must be read to their ends before `decide` may be asked; none where no text can matter.

    A text matters also when all retries are used up: it says why the last attempt failed.
    """
    ended = job.attempt.ended
    undecided = ended is not None and _condition_of(ended.reason) == "failure" and terms.reads_logs
    if not undecided or terms.retry.max_retries == 0 or _decided_by_code(job.attempt, terms):
        return ()
    return logs_with_a_cause(job)


def logs_with_a_cause(job: Job) -> tuple[ReplicaRef, ...]:
    """Replicas whose logs may tell the root cause, whether or not it decides anything."""
    ended = job.attempt.ended
    if ended is None or _condition_of(ended.reason) != "failure":
        return ()
    return tuple(_ref(replica) for replica in _unsuccessful(job.attempt) if replica.started_at is not None)


def decide(job: Job, terms: Terms, catalogue: Catalogue, heard: Heard = Heard()) -> RetryDecided | None:
    """The decision that the job waits for; None where it waits for none. `heard` adds to the recorded incidents."""
    attempt, ended = job.attempt, job.attempt.ended
    if ended is None or not is_due(job):
        return None
    lines = _lines(attempt, heard.found)
    cause = root_cause(attempt, lines, catalogue) if _condition_of(ended.reason) == "failure" else None
    reach = Reach(heard.progress or chain.reported(attempt), heard.checkpoint)
    case = Case(job, attempt, ended, terms, catalogue, lines, cause, reach)
    budget = _budget(job, terms)
    verdict = _without_repeats(case, _verdict(case)) if budget > 0 else _verdict(case)
    retry = verdict.rule is not None and (verdict.charged == "platform" or budget > 0)
    return RetryDecided(
        retry=retry,
        reason=f"{how_it_ended(ended)}; {_conclusion(verdict, terms, budget)}",
        rule=verdict.rule,
        root_cause=end_code(ended),
        replica=verdict.replica or (cause.replica if cause else None) or ended.first_failure,
        line=verdict.line,
        others=_others(attempt, ended.first_failure, verdict, lines),
        budget_left=budget - 1 if retry and verdict.charged == "job" else budget,
        not_before=_not_before(attempt, terms) if retry else None,
        cause=cause,
        progress=reach.progress,
        checkpoint=reach.checkpoint,
        charged=verdict.charged,
        exclude_nodes=suspects(cause) if retry else (),
    )


def _condition_of(reason: EndReason) -> str:
    return {EndReason.HANG: "hang", EndReason.DIAGNOSIS: "diagnosisFailure"}.get(reason, "failure")


def _verdict(case: Case) -> Verdict:
    if case.ended.reason is EndReason.PREEMPTED:
        return Verdict("it is queued again, which uses no retry", "fact/preempted", charged="platform")
    if case.terms.retry.max_retries == 0:
        return Verdict("the job asks for no retries")
    if case.ended.reason is EndReason.PLATFORM:
        return _lost(case.job)
    on, condition = case.terms.retry.on, _condition_of(case.ended.reason)
    if condition == "failure":
        return _by_policy(case, on.failure) if on.failure else Verdict("retry.on names no failure")
    if on.hang if condition == "hang" else on.diagnosis_failure:
        return Verdict(f"retry.on.{condition} asks for a new attempt", rule=f"on-{_dashed(condition)}")
    return Verdict(f"retry.on.{condition} is not set")


def _lost(job: Job) -> Verdict:
    """Attempts that the platform lost are made up for, within reason."""
    decisions = [attempt.decision for attempt in job.attempts if attempt.decision]
    times = sum(each.retry and each.rule == "fact/platform" for each in decisions)
    if times >= PLATFORM_RETRIES_MAX:
        return Verdict(f"attempts were lost to the platform {times} times already, and that is enough")
    return Verdict("the loss is the platform's, so the new attempt uses no retry", "fact/platform", charged="platform")


def _without_repeats(case: Case, verdict: Verdict) -> Verdict:
    """The verdict, unless it would only repeat what the last two attempts did."""
    failure = case.terms.retry.on.failure
    is_judged = verdict.rule is not None and verdict.charged == "job" and failure and failure.policy != "OnFailure"
    if not is_judged or not chain.is_repeat(case.job, case.cause, case.reach):
        return verdict
    what = case.cause.rule if case.cause else verdict.rule
    return Verdict(
        f"{what} ended two attempts in a row in the same way, and the second came no further "
        f"({case.reach}), so the chain is stopped",
        replica=verdict.replica,
        line=verdict.line,
    )


def _by_policy(case: Case, failure: FailureRetry) -> Verdict:
    match failure.policy:
        case "OnFailure":
            return Verdict("OnFailure retries every failure", rule="on-failure")
        case "ExitCodeAndErrorMsg":
            return _by_code_and_message(case.attempt, failure, case.lines)
        case "Advanced":
            return _advanced(case, failure)


def _by_code_and_message(attempt: Attempt, failure: FailureRetry, lines: tuple[Found, ...]) -> Verdict:
    wanted = {rule.id for rule in messages(failure)}
    for replica in _failed(attempt):
        code_holds = not failure.exit_codes or _code(replica) in failure.exit_codes
        line = next((each for each in lines if each.replica == _ref(replica) and each.rule in wanted), None)
        if code_holds and wanted and line is not None:
            listed = f"exit code {_code(replica)} is listed and " if failure.exit_codes else ""
            return _line_verdict(line, listed)
        if code_holds and not wanted:
            return _code_verdict(replica)
    missing = [name for name, given in (("exit code", failure.exit_codes), ("message", wanted)) if given]
    return Verdict(f"no failed replica has {' and '.join(f'a listed {name}' for name in missing)}")


def _advanced(case: Case, failure: FailureRetry) -> Verdict:
    by_code = _by_listed_code(case.attempt, failure)
    if by_code is not None:
        return by_code
    wanted = (*(rule.id for rule in messages(failure)), *case.catalogue.presets)
    rank = {rule: number for number, rule in enumerate(wanted)}
    line = min((each for each in case.lines if each.rule in rank), key=lambda each: rank[each.rule], default=None)
    if line is not None:
        return _line_verdict(line)
    return classes.verdict_of(case.job, case.cause, case.reach)


def _by_listed_code(attempt: Attempt, failure: FailureRetry) -> Verdict | None:
    replica = next((each for each in _failed(attempt) if _code(each) in failure.exit_codes), None)
    return _code_verdict(replica) if replica is not None else None


def _decided_by_code(attempt: Attempt, terms: Terms) -> bool:
    failure = terms.retry.on.failure
    return failure is not None and failure.policy == "Advanced" and _by_listed_code(attempt, failure) is not None


def _code_verdict(replica: Replica) -> Verdict:
    code = _code(replica)
    return Verdict(f"exit code {code} of {name_of(_ref(replica))} is listed", f"exit-code/{code}", _ref(replica))


def _line_verdict(line: Found, also: str = "") -> Verdict:
    return Verdict(
        f"{also}{name_of(line.replica)} printed what {line.rule} looks for", line.rule, line.replica, line.line
    )


def _conclusion(verdict: Verdict, terms: Terms, budget: int) -> str:
    if verdict.rule is not None and budget == 0 and verdict.charged == "job":
        most = terms.retry.max_retries
        return f"{verdict.why}, but {'the one retry is' if most == 1 else f'all {most} retries are'} used up"
    return verdict.why


def _budget(job: Job, terms: Terms) -> int:
    """Retries that may still be decided."""
    decisions = [attempt.decision for attempt in job.attempts if attempt.decision]
    used = sum(each.retry and each.charged == "job" for each in decisions)
    return max(0, terms.retry.max_retries - used)


def _not_before(attempt: Attempt, terms: Terms) -> datetime | None:
    if attempt.ended_at is None or terms.retry.interval_s == 0:
        return None
    return attempt.ended_at + timedelta(seconds=terms.retry.interval_s)


def _lines(attempt: Attempt, found: Iterable[Found]) -> tuple[Found, ...]:
    """Every line that counts, of the first failure first, then by replica; one a rule and replica, of no tried rule."""
    recorded = (_of_incident(incident) for incident in attempt.incidents if incident.mode == "active")
    unsuccessful = [_ref(replica) for replica in _unsuccessful(attempt)]
    rank = {(ref.role, ref.index): number for number, ref in enumerate(unsuccessful)}
    known = {(each.rule, each.replica.role, each.replica.index): each for each in (*filter(None, recorded), *found)}
    counted = [each for each in known.values() if (each.replica.role, each.replica.index) in rank]
    return tuple(sorted(counted, key=lambda each: (rank[each.replica.role, each.replica.index], each.rule)))


def _of_incident(incident: IncidentRaised) -> Found | None:
    at_ms = int(incident.at.timestamp() * 1000) if incident.at else 0
    return Found(incident.rule, incident.replica, incident.line, at_ms) if incident.replica else None


def _unsuccessful(attempt: Attempt) -> list[Replica]:
    """Replicas that failed, the first failure first, then those that were stopped."""
    stopped = [replica for replica in _replicas(attempt) if replica.state == "Stopped"]
    return [*_failed(attempt), *sorted(stopped, key=_place)]


def _failed(attempt: Attempt) -> list[Replica]:
    first = attempt.ended.first_failure if attempt.ended else None
    failed = [replica for replica in _replicas(attempt) if replica.state == "Failed"]
    return sorted(failed, key=lambda replica: (_ref(replica) != first, *_place(replica)))


def _replicas(attempt: Attempt) -> Iterator[Replica]:
    """All replicas; the exit of the first failure is known from the end itself, too."""
    ended = attempt.ended
    for replica in attempt.replicas.values():
        is_first = ended is not None and ended.first_failure == _ref(replica)
        unknown = is_first and ended is not None and replica.exit is None
        yield replica.model_copy(update={"exit": ended.exit}) if unknown and ended else replica


def _place(replica: Replica) -> tuple[str, int]:
    return replica.role, replica.index


def _ref(replica: Replica) -> ReplicaRef:
    return ReplicaRef(role=replica.role, index=replica.index)


def _code(replica: Replica) -> int | None:
    return exit_code(replica.exit) if replica.exit else None


def _others(attempt: Attempt, first: ReplicaRef | None, verdict: Verdict, lines: tuple[Found, ...]) -> tuple[str, ...]:
    """What the other failed replicas said, and the other lines that were found: the first twenty of them."""
    said = [*_other_exits(attempt, first), *_other_lines(verdict, lines)]
    more = len(said) - MAX_OTHERS
    return (*said[:MAX_OTHERS], f"and {more} more") if more > 0 else tuple(said)


def _other_exits(attempt: Attempt, first: ReplicaRef | None) -> Iterator[str]:
    for replica in sorted(_failed(attempt), key=_place):
        if _ref(replica) != first:
            yield f"{name_of(_ref(replica))} {describe(replica.exit or ReplicaExit())}"


def _other_lines(verdict: Verdict, lines: tuple[Found, ...]) -> Iterator[str]:
    for each in lines:
        if (each.rule, each.replica) != (verdict.rule, verdict.replica):
            yield f"{name_of(each.replica)} printed ({each.rule}): {each.line[:MAX_OTHER_LINE]}"


def suspects(cause: Cause | None) -> tuple[str, ...]:
    """Nodes that the cause speaks against; the next attempt does not get them."""
    if cause is None or cause.node is None or cause.failure_class != FailureClass.NODE:
        return ()
    return (cause.node,)


def _dashed(condition: str) -> str:
    return "diagnosis-failure" if condition == "diagnosisFailure" else condition
