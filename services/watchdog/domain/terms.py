"""The terms of a job that the watchdog acts on, read from its spec: retries, lines to look for, silence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from services.watchdog.domain.matching import LineRule
from services.watchdog.domain.presets import PRESETS
from shared.jobs import Job
from shared.jobspec.models import FailureRetry, Retry, TrainingSpec

NO_RETRY = Retry.model_validate({"maxRetries": 0})


@dataclass(frozen=True, slots=True)
class Terms:
    """What a job asks of the watchdog; `silence_s` is None where no hangs are looked for."""

    retry: Retry
    silence_s: float | None

    @classmethod
    def of(cls, job: Job) -> Self:
        """The terms of a job; raises pydantic's ValidationError where this version cannot read its spec."""
        spec = TrainingSpec.model_validate(job.submitted.spec)
        detects = spec.hang_detection if spec.hang_detection and spec.hang_detection.enabled else None
        return cls(spec.retry or NO_RETRY, detects.silence_s if detects else None)

    @property
    def retries_hangs(self) -> bool:
        """Whether a hang ends the attempt."""
        return self.retry.on.hang and self.retry.max_retries > 0

    @property
    def lines(self) -> tuple[LineRule, ...]:
        """Rules that are looked for in the logs: the user's messages, then the preset rows; none where none matter."""
        failure = self.retry.on.failure
        if failure is None or self.retry.max_retries == 0 or failure.policy == "OnFailure":
            return ()
        return (*messages(failure), *(PRESETS if failure.policy == "Advanced" else ()))


def messages(failure: FailureRetry) -> tuple[LineRule, ...]:
    """The user's messages as rules, numbered from 1 as they are written."""
    return tuple(LineRule(f"message/{number}", text) for number, text in enumerate(failure.error_messages, start=1))
