"""Whether a job may be submitted here and now, with everything it refers to as it is at this moment.

All that is wrong with the document and with what it refers to comes back at once. Only a foreign pool goes before wrong
references: it is no mistake in the document but a right that is missing, and is answered with 403.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from services.submitter.domain.lookup import Answer, LookedUp
from shared.auth.principal import Principal
from shared.documents.fields import shown
from shared.documents.parsing import VIOLATIONS_MAX
from shared.errors import ForbiddenError, InvalidInputError, Violation
from shared.events import (
    Event,
    EventError,
    Resolved,
    ResolvedCode,
    ResolvedImage,
    ResolvedMount,
    ResolvedRole,
    Submitted,
)
from shared.events import encode as encode_event
from shared.jobspec import JobSpec, JudgedJob


def admit(judged: JudgedJob, found: LookedUp, missing: Collection[str]) -> tuple[JobSpec, Resolved]:
    """The job and all that it refers to; raises ForbiddenError naming a foreign pool, or InvalidInputError.

    `missing` are those of the paths found at which there is nothing.
    """
    wrong = (*judged.violations, *_beside(judged.violations, found.violations(missing)))
    if judged.job is not None and found.foreign_pools:
        names = ", ".join(map(shown, found.foreign_pools))
        raise ForbiddenError(f"you are no member of the dedicated pool {names}; ask an admin to be made one")
    if judged.job is None or wrong:
        raise InvalidInputError(wrong[:VIOLATIONS_MAX])
    return judged.job, _resolved(judged.job, found.answers)


def _beside(told: Iterable[Violation], more: Iterable[Violation]) -> Iterator[Violation]:
    """Those of the further violations that do not speak of a place about which something was said already."""
    places = {violation.pointer for violation in told}
    for violation in more:
        if not places & {violation.pointer, violation.pointer.rpartition("/")[0]}:
            yield violation


def _resolved(job: JobSpec, answers: tuple[Answer, ...]) -> Resolved:
    return Resolved(
        cluster=job.spec.cluster,
        roles=tuple(answer for answer in answers if isinstance(answer, ResolvedRole)),
        mounts=tuple(answer for answer in answers if isinstance(answer, ResolvedMount)),
        image=next((answer for answer in answers if isinstance(answer, ResolvedImage)), None),
        code=next((answer for answer in answers if isinstance(answer, ResolvedCode)), None),
    )


def submitted_event(
    job: JobSpec,
    resolved: Resolved,
    principal: Principal,
    *,
    job_id: str,
    name: str,
    time: datetime,
    request_digest: str,
    traceparent: str | None,
) -> Event:
    """The event that makes the job; raises InvalidInputError where it is too large to be one."""
    payload = Submitted(
        name=name,
        generate_name=job.metadata.generate_name,
        owner_name=principal.name,
        labels=job.metadata.labels,
        spec=job.document()["spec"],
        resolved=resolved,
        priority=job.spec.priority,
        request_digest=request_digest,
    )
    event = Event.of(
        payload,
        job=job_id,
        attempt=1,
        time=time,
        owner=principal.user_id,
        project=job.metadata.project,
        traceparent=traceparent,
    )
    try:
        encode_event(event)
    except EventError as error:
        sentence = (
            f"with all that it refers to the job is too large ({error.message}); upload code instead of inlining it"
        )
        raise InvalidInputError((Violation("", "spec-too-large", sentence),)) from None
    return event
