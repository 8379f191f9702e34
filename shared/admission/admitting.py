"""Whether a job may be submitted here and now, with everything it refers to as it is at this moment.

All that is wrong with the document and with what it refers to comes back at once. Only a foreign pool goes before wrong
references: it is no mistake in the document but a right that is missing, and is answered with 403.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from shared.admission.lookup import Answer, LookedUp
from shared.documents.fields import shown
from shared.documents.parsing import VIOLATIONS_MAX
from shared.errors import ForbiddenError, InvalidInputError, Violation
from shared.events import Resolved, ResolvedCode, ResolvedImage, ResolvedMount, ResolvedRole
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
    spec = judged.job.spec.model_copy(update={"cluster": found.cluster})
    job = judged.job.model_copy(update={"spec": spec})
    return job, _resolved(job, found.answers)


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
