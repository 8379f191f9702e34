"""Attempts that follow each other: whether the next one would only repeat what the last ones did.

A chain stops where the same root cause ended two attempts in a row and the second came no further than the first: what
no rule of the user's foresees will not be otherwise the third time. How far an attempt came (`Reach`) is told in three
ways: what its logs printed of epochs and steps, what the service `logs` has told of it, which reads scalars, too, and
the furthest file in its checkpoint directory. They count in different ways, so each is compared with its like, and to
have come further by one of them is enough. A checkpoint whose name has no number (`last.pt`) is written over and over:
it counts only where nothing else tells how far the attempt came. An ambiguous cause is worth one more try, and another
only after progress.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.checkpoints import numbers_in
from shared.events import Cause, Progress, RetryDecided
from shared.jobs import Attempt, Job

_NOWHERE = Progress()


@dataclass(frozen=True, slots=True)
class Reach:
    """How far an attempt came, as its logs printed it, and the furthest file that it saved."""

    progress: Progress | None = None
    checkpoint: str | None = None

    @classmethod
    def of(cls, decision: RetryDecided | None) -> Reach:
        """What was put down of an earlier attempt."""
        return cls(decision.progress, decision.checkpoint) if decision is not None else cls()

    def __str__(self) -> str:
        """In words: `epoch 3, step 120, checkpoint step-120.pt`."""
        progress = self.progress or _NOWHERE
        parts = [f"epoch {progress.epoch}"] if progress.epoch else []
        parts += [f"step {progress.step}"] if progress.step else []
        parts += [f"checkpoint {self.checkpoint}"] if self.checkpoint else []
        return ", ".join(parts) or "no step"


def is_repeat(job: Job, cause: Cause | None, reach: Reach) -> bool:
    """Whether the attempt ended as the one before it did, without having come further."""
    before = job.attempts[-2] if len(job.attempts) > 1 else None
    told = before.decision.cause if before is not None and before.decision is not None else None
    if before is None or told is None or cause is None or cause.fingerprint is None:
        return False
    return told.fingerprint == cause.fingerprint and not _is_further(job.attempt, reach, before)


def was_tried_again(job: Job, rule_class: str, reach: Reach) -> bool:
    """Whether a cause of this class was given another try already, and nothing was gained since."""
    tried = [
        attempt
        for attempt in job.attempts[:-1]
        if attempt.decision and attempt.decision.retry and attempt.decision.cause
        and attempt.decision.cause.failure_class == rule_class
        and attempt.decision.rule == attempt.decision.cause.rule
    ]  # fmt: skip
    return bool(tried) and not _is_further(job.attempt, reach, tried[-1])


def reported(attempt: Attempt) -> Progress | None:
    """How far the attempt came as the service `logs` has told it."""
    told = attempt.progress
    return Progress(epoch=int(told.epoch or 0), step=told.step or 0) if told is not None else None


def _is_further(attempt: Attempt, reach: Reach, before: Attempt) -> bool:
    """Whether the attempt, of which this is known, came further than one before it."""
    then = Reach.of(before.decision)
    if _is_more(reach.progress, then.progress) or _is_more(reported(attempt), reported(before)):
        return True
    is_told = _is_more(reach.progress, None) or _is_more(reported(attempt), None)
    return reach.checkpoint is not None and _is_new(reach.checkpoint, then.checkpoint, is_told=is_told)


def _is_more(progress: Progress | None, before: Progress | None) -> bool:
    now, then = progress or _NOWHERE, before or _NOWHERE
    return (now.epoch, now.step) > (then.epoch, then.step)


def _is_new(checkpoint: str, before: str | None, *, is_told: bool) -> bool:
    """Whether a checkpoint is further than that of an earlier attempt; `is_told`: something else tells of steps."""
    numbers = numbers_in(checkpoint)
    return numbers > numbers_in(before or "") if numbers else not is_told
