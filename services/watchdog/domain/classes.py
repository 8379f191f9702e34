"""What the class of a root cause asks for, where no rule of the user's own decides."""

from __future__ import annotations

from services.watchdog.domain import chain
from services.watchdog.domain.chain import Reach
from services.watchdog.domain.rules import FailureClass
from services.watchdog.domain.verdict import Verdict
from services.watchdog.domain.wording import called, name_of
from shared.events import Cause
from shared.jobs import Job


def verdict_of(job: Job, cause: Cause | None, reach: Reach) -> Verdict:
    """Whether the root cause is worth another attempt."""
    if cause is None:
        return Verdict(
            "no rule decides: no listed exit code, none of the messages, none of the preset rows and nothing that the "
            "catalogue knows was found"
        )
    what = f"{cause.rule} in {name_of(cause.replica)}" if cause.replica else cause.rule
    match cause.failure_class:
        case FailureClass.USER:
            why = f"{what} is an error of the job itself, which would come again, so it is not retried: {cause.advice}"
            return Verdict(why, replica=cause.replica, line=cause.line)
        case FailureClass.NODE:
            return _retry(
                f"{what} speaks against node {called(cause.node, job.attempt)}, which the next attempt does not get",
                cause,
            )
        case FailureClass.INFRASTRUCTURE:
            return _retry(f"{what} passes by itself", cause)
    if chain.was_tried_again(job, cause.failure_class, reach):
        why = f"{what} is ambiguous; it was given one more try already, which came no further"
        return Verdict(f"{why} ({reach})", replica=cause.replica, line=cause.line)
    return _retry(f"{what} is ambiguous and gets one more try", cause)


def _retry(why: str, cause: Cause) -> Verdict:
    return Verdict(why, cause.rule, cause.replica, cause.line)
