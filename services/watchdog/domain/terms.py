"""The terms of a job that the watchdog acts on, read from its spec: retries, lines to look for, silence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from services.watchdog.domain.rules import LineRule
from shared.jobs import Job
from shared.jobspec.models import FailureRetry, Retry, TrainingSpec

EXIT_SILENCE_S: Final = 600.0
_ROLE_RULE: Final = "role:"
NO_RETRY = Retry.model_validate({"maxRetries": 0})


@dataclass(frozen=True, slots=True)
class Terms:
    """What a job asks of the watchdog; `silence_s` is None where no hangs are looked for.

    `messages` are the user's own, where they can decide anything. `phases` are the limits of declared phases;
    `exit_silence_s` is borne once a replica of `deciding_roles` ended well.
    """

    retry: Retry
    silence_s: float | None
    phases: Mapping[str, float] = field(default_factory=dict)
    exit_silence_s: float | None = None
    deciding_roles: frozenset[str] = frozenset()
    messages: tuple[LineRule, ...] = ()

    @classmethod
    def of(cls, job: Job) -> Self:
        """The terms of a job; raises pydantic's ValidationError where this version cannot read its spec."""
        spec = TrainingSpec.model_validate(job.submitted.spec)
        retry = spec.retry or NO_RETRY
        detects = spec.hang_detection if spec.hang_detection and spec.hang_detection.enabled else None
        if detects is None:
            return cls(retry, None, messages=_messages_that_count(retry))
        return cls(
            retry,
            detects.silence_s,
            dict(detects.phases),
            detects.exit_silence_s or min(detects.silence_s, EXIT_SILENCE_S),
            _deciding_roles(spec),
            _messages_that_count(retry),
        )

    @classmethod
    def with_retry(cls, retry: Retry) -> Self:
        """The terms of a job that has this retry section and nothing else."""
        return cls(retry, None, messages=_messages_that_count(retry))

    @property
    def retries_hangs(self) -> bool:
        """Whether a hang ends the attempt."""
        return self.retry.on.hang and self.retry.max_retries > 0

    @property
    def uses_presets(self) -> bool:
        """Whether the preset rows decide about retries."""
        failure = self.retry.on.failure
        return failure is not None and self.retry.max_retries > 0 and failure.policy == "Advanced"

    @property
    def reads_logs(self) -> bool:
        """Whether text can decide about a retry."""
        return bool(self.messages) or self.uses_presets


def _deciding_roles(spec: TrainingSpec) -> frozenset[str]:
    rule = spec.completion.succeed_when
    if rule.startswith(_ROLE_RULE):
        return frozenset({rule.removeprefix(_ROLE_RULE)})
    return frozenset(role.name for role in spec.roles)


def _messages_that_count(retry: Retry) -> tuple[LineRule, ...]:
    failure = retry.on.failure
    if failure is None or retry.max_retries == 0 or failure.policy == "OnFailure":
        return ()
    return messages(failure)


def messages(failure: FailureRetry) -> tuple[LineRule, ...]:
    """The user's messages as rules, numbered from 1 as they are written."""
    return tuple(
        LineRule.of_texts(f"message/{number}", *texts) for number, texts in enumerate(failure.error_messages, start=1)
    )
