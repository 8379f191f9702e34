"""The story of a job that has ended, in a few sentences: what became of it, and of each attempt why it ended.

Everything is told from the job's own events, so the story is the same whoever asks and whenever.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from services.watchdog.domain.chain import Reach
from services.watchdog.domain.wording import called, how_it_ended, name_of
from shared.clock import rfc3339
from shared.events import Cause, EndReason, RetryDecided
from shared.jobs import Attempt, Job, JobState
from shared.units import format_duration

ATTEMPTS_TOLD: Final = 5
LINE_CHARS: Final = 200
OUTLIERS_TOLD: Final = 3


def story_of(job: Job) -> tuple[str, ...]:
    """The sentences; none while the job goes on."""
    if not job.ended:
        return ()
    told = job.attempts if len(job.attempts) <= ATTEMPTS_TOLD else (job.attempts[0], *job.attempts[1 - ATTEMPTS_TOLD :])
    left_out = len(job.attempts) - len(told)
    sentences = [_beginning(job)]
    for number, attempt in enumerate(told):
        if number == 1 and left_out:
            sentences.append(f"{left_out} further attempts ended in between.")
        sentences += _attempt(job, attempt)
    return (*sentences, *_advice(job))


def _beginning(job: Job) -> str:
    attempts = "one attempt" if len(job.attempts) == 1 else f"{len(job.attempts)} attempts"
    what = {JobState.SUCCEEDED: "succeeded", JobState.STOPPED: "was stopped", JobState.FAILED: "failed"}[job.state]
    when = f" at {rfc3339(job.ended_at)}" if job.ended_at else ""
    by = f" by {job.stop.by}" if job.stop is not None and job.state is JobState.STOPPED else ""
    return f"{job.name} {what}{by}{when}, after {attempts}."


def _attempt(job: Job, attempt: Attempt) -> Iterator[str]:
    ended, decision = attempt.ended, attempt.decision
    if ended is None or ended.reason is EndReason.COMPLETED:
        return
    if ended.reason is EndReason.STOPPED:
        # Where no hang is retried, it is the user who stops a job that hangs.
        yield from _evidence(job, attempt)
        return
    ran = f" after {_ran(attempt)}" if attempt.started_at else " before all of it ran"
    yield f"Attempt {attempt.number} ended{ran}: {how_it_ended(ended)}."
    yield from _evidence(job, attempt)
    if decision is None:
        return
    if decision.cause is not None:
        yield from _cause(decision.cause, attempt)
    yield from _gain(decision)
    yield _next(job, attempt, decision)


def _ran(attempt: Attempt) -> str:
    if attempt.started_at is None or attempt.ended_at is None:
        return "a time that is not known"
    return format_duration(max(1, round((attempt.ended_at - attempt.started_at).total_seconds())))


def _evidence(job: Job, attempt: Attempt) -> Iterator[str]:
    """What the ranks of a hung attempt were doing, by the evidence that was taken last."""
    if not attempt.evidence:
        return
    evidence = attempt.evidence[-1]
    yield f"Evidence of {evidence.rule}, taken at {rfc3339(evidence.at)}: {evidence.summary.rstrip('.')}."
    if evidence.outliers:
        named, more = evidence.outliers[:OUTLIERS_TOLD], len(evidence.outliers) - OUTLIERS_TOLD
        yield f"Look first at {'; '.join(named)}" + (f"; and {more} more." if more > 0 else ".")
    if evidence.digest is not None:
        yield f"Stacks and states of all ranks: trainmaster evidence {job.name} --attempt {attempt.number}"


def _cause(cause: Cause, attempt: Attempt) -> Iterator[str]:
    where = f" in {name_of(cause.replica)}" if cause.replica else ""
    node = f" on node {called(cause.node, attempt)}" if cause.node else ""
    line = f': "{cause.line[:LINE_CHARS]}"' if cause.line else ""
    yield f"Its root cause is {cause.rule} ({cause.failure_class}){where}{node}{line}."


def _gain(decision: RetryDecided) -> Iterator[str]:
    if decision.progress is not None or decision.checkpoint is not None:
        yield f"It had come to {Reach.of(decision)}."
    if decision.others:
        more = len(decision.others) - 1
        yield f"Others said: {decision.others[0][:LINE_CHARS]}" + (f", and {more} more." if more else ".")


def _next(job: Job, attempt: Attempt, decision: RetryDecided) -> str:
    _how, _, said = decision.reason.partition("; ")
    why = (said or decision.reason).rstrip(".")
    if not decision.retry:
        return f"There was no further attempt: {why}."
    excluded = ", ".join(called(node, attempt) for node in decision.exclude_nodes)
    without = f", without {excluded}" if excluded else ""
    came = "Another attempt was made" if attempt.number < len(job.attempts) else "Another attempt was decided"
    return f"{came}{without}: {why}."


def _advice(job: Job) -> Iterator[str]:
    decision = job.attempt.decision
    advice = decision.cause.advice if decision is not None and decision.cause is not None else ""
    if job.state is JobState.FAILED and advice and decision is not None and advice not in decision.reason:
        yield f"What to do: {advice}"
