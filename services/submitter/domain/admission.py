"""Whether a valid job may be submitted here and now, and everything it refers to as it is at this moment.

All that is wrong comes back at once. Only a foreign pool goes before the rest: it is no mistake in the document but a
right that is missing, and is answered with 403.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from services.submitter.domain.references import (
    ForeignPool,
    World,
    code_of,
    image_of,
    mount_of,
    role_of,
    secret_violation,
)
from shared.auth.principal import Principal
from shared.catalog import Cluster, Project
from shared.catalog.access import DEFAULT_PROJECT, may_use_project
from shared.documents.fields import shown
from shared.documents.parsing import pointer
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
from shared.jobspec import FIRST_CLUSTER, JobSpec

_Answer = ResolvedImage | ResolvedCode | ResolvedMount | ResolvedRole | Violation | ForeignPool


def resolve(job: JobSpec, world: World) -> Resolved:
    """Every reference of the job; raises ForbiddenError naming a foreign pool, or InvalidInputError."""
    answers = list(_answers(job, world))
    violations = [*_project_violations(job, world), *_cluster_violations(job, world)]
    foreign = sorted({answer.name for answer in answers if isinstance(answer, ForeignPool)})
    if foreign:
        names = ", ".join(map(shown, foreign))
        raise ForbiddenError(f"you are no member of the dedicated pool {names}; ask an admin to be made one")
    violations += [answer for answer in answers if isinstance(answer, Violation)]
    if violations:
        raise InvalidInputError(tuple(violations))
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
    time: datetime,
    request_digest: str,
    traceparent: str | None,
) -> Event:
    """The event that makes the job; raises InvalidInputError where it is too large to be one."""
    payload = Submitted(
        name=job.metadata.name,
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


def _answers(job: JobSpec, world: World) -> Iterator[_Answer]:
    yield image_of(job.spec.image, world)
    if job.spec.code is not None:
        yield code_of(job.spec.code, world)
    for index, mount in enumerate(job.spec.mounts):
        yield mount_of(index, mount, world)
    for variable, secret in job.spec.secrets.items():
        violation = secret_violation(secret, pointer(("spec", "secrets", variable)), world.catalog, world.asker)
        if violation is not None:
            yield violation
    for index, role in enumerate(job.spec.roles):
        yield role_of(index, role, world)


def _project_violations(job: JobSpec, world: World) -> Iterator[Violation]:
    name = job.metadata.project
    project = world.catalog.get(Project, name)
    if name != DEFAULT_PROJECT and (project is None or not may_use_project(project, world.asker)):
        sentence = f"there is no project {shown(name)} that you are in; leave it out, or apply it as kind: Project"
        yield Violation("/metadata/project", "unknown-project", sentence)


def _cluster_violations(job: JobSpec, world: World) -> Iterator[Violation]:
    cluster = world.catalog.get(Cluster, FIRST_CLUSTER)
    if job.spec.mounts and cluster is not None and not cluster.spec.mounts:
        sentence = f"mounts do not work here: {cluster.spec.mounts_hint or 'the engine cannot make them'}"
        yield Violation("/spec/mounts", "mounts-unavailable", sentence)
