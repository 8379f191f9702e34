"""Attempts that follow each other: whether the next one would only repeat what the last ones did.

A chain stops where the same root cause ended two attempts in a row and the second came no further than the first: what
no rule of the user's foresees will not be otherwise the third time. How far an attempt came is what its logs printed of
epochs and steps. An ambiguous cause is worth one more try, and another only after progress.
"""

from __future__ import annotations

from shared.events import Cause, Progress, RetryDecided
from shared.jobs import Attempt, Job

_NOWHERE = Progress()


def is_repeat(job: Job, cause: Cause | None, progress: Progress | None) -> bool:
    """Whether the attempt ended as the one before it did, without having come further."""
    before = _decision_before(job)
    if before is None or cause is None or before.cause is None or cause.fingerprint is None:
        return False
    return before.cause.fingerprint == cause.fingerprint and not is_further(progress, before.progress)


def was_tried_again(job: Job, rule_class: str, progress: Progress | None) -> bool:
    """Whether a cause of this class was given another try already, and nothing was gained since."""
    tried = [
        attempt.decision
        for attempt in job.attempts[:-1]
        if attempt.decision and attempt.decision.retry and attempt.decision.cause
        and attempt.decision.cause.failure_class == rule_class
        and attempt.decision.rule == attempt.decision.cause.rule
    ]  # fmt: skip
    return bool(tried) and not is_further(progress, tried[-1].progress)


def is_further(progress: Progress | None, before: Progress | None) -> bool:
    """Whether one attempt came further than another."""
    now, then = progress or _NOWHERE, before or _NOWHERE
    return (now.epoch, now.step) > (then.epoch, then.step)


def words_of(progress: Progress | None) -> str:
    """How far that is, in words: `epoch 3, step 120`."""
    if progress is None or progress == _NOWHERE:
        return "no step"
    parts = [f"epoch {progress.epoch}"] if progress.epoch else []
    return ", ".join([*parts, f"step {progress.step}"] if progress.step else parts)


def _decision_before(job: Job) -> RetryDecided | None:
    earlier: tuple[Attempt, ...] = job.attempts[:-1]
    return earlier[-1].decision if earlier else None
