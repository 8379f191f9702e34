"""Attempts that follow each other: whether the next one would only repeat what the last ones did.

A chain stops where the same root cause ended two attempts in a row and the second came no further than the first: what
no rule of the user's foresees will not be otherwise the third time. How far an attempt came is what its logs printed of
epochs and steps, and what the service `logs` has told of it, which reads scalars, too. The two count in different ways,
so each is compared with its like, and to have come further by one of them is enough. An ambiguous cause is worth one
more try, and another only after progress.
"""

from __future__ import annotations

from shared.events import Cause, Progress
from shared.jobs import Attempt, Job

_NOWHERE = Progress()


def is_repeat(job: Job, cause: Cause | None, progress: Progress | None) -> bool:
    """Whether the attempt ended as the one before it did, without having come further."""
    before = job.attempts[-2] if len(job.attempts) > 1 else None
    told = before.decision.cause if before is not None and before.decision is not None else None
    if before is None or told is None or cause is None or cause.fingerprint is None:
        return False
    return told.fingerprint == cause.fingerprint and not _is_further(job.attempt, progress, before)


def was_tried_again(job: Job, rule_class: str, progress: Progress | None) -> bool:
    """Whether a cause of this class was given another try already, and nothing was gained since."""
    tried = [
        attempt
        for attempt in job.attempts[:-1]
        if attempt.decision and attempt.decision.retry and attempt.decision.cause
        and attempt.decision.cause.failure_class == rule_class
        and attempt.decision.rule == attempt.decision.cause.rule
    ]  # fmt: skip
    return bool(tried) and not _is_further(job.attempt, progress, tried[-1])


def reported(attempt: Attempt) -> Progress | None:
    """How far the attempt came as the service `logs` has told it."""
    told = attempt.progress
    return Progress(epoch=int(told.epoch or 0), step=told.step or 0) if told is not None else None


def _is_further(attempt: Attempt, progress: Progress | None, before: Attempt) -> bool:
    """Whether the attempt, whose logs printed this, came further than one before it."""
    then = before.decision.progress if before.decision is not None else None
    return _is_more(progress, then) or _is_more(reported(attempt), reported(before))


def _is_more(progress: Progress | None, before: Progress | None) -> bool:
    now, then = progress or _NOWHERE, before or _NOWHERE
    return (now.epoch, now.step) > (then.epoch, then.step)


def words_of(progress: Progress | None) -> str:
    """How far that is, in words: `epoch 3, step 120`."""
    if progress is None or progress == _NOWHERE:
        return "no step"
    parts = [f"epoch {progress.epoch}"] if progress.epoch else []
    return ", ".join([*parts, f"step {progress.step}"] if progress.step else parts)
