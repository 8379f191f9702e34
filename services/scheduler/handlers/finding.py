"""Finding the job that somebody means, among those that they may see."""

from __future__ import annotations

from shared.auth.principal import Principal, can_see
from shared.catalog import Catalog, asker_of
from shared.catalog.access import projects_of
from shared.documents.fields import shown
from shared.errors import ConflictError, NotFoundError
from shared.ids import is_job_id
from shared.jobs import Job
from shared.readmodel import JobReadModel


def may_see(principal: Principal, job: Job, view: Catalog) -> bool:
    """Whether the job is the principal's own, or of a project that they are in, or they are an admin."""
    return can_see(principal, job.owner) or job.project in seen_projects(principal, view)


def seen_projects(principal: Principal, view: Catalog) -> tuple[str, ...]:
    """Projects whose jobs the principal may see, whoever owns them."""
    return projects_of(asker_of(principal, view), view)


def find_job(
    jobs: JobReadModel, principal: Principal, view: Catalog, reference: str, *, with_deleted: bool = False
) -> Job:
    """The job by id or name; raises NotFoundError, or ConflictError where several have the name.

    A deleted job has no name any more and is found by its id, where `with_deleted` asks for it.
    """
    by_id = jobs.get(reference) if is_job_id(reference) else None
    if by_id is not None and (with_deleted or not by_id.deleted) and may_see(principal, by_id, view):
        return by_id
    own = jobs.find(principal.user_id, reference)
    found = [own] if own else [job for job in jobs.named(reference) if may_see(principal, job, view)]
    if not found:
        raise NotFoundError("job", reference)
    if len(found) > 1:
        raise ConflictError(f"several jobs that you may see are called {shown(reference)}; give the id of one")
    return found[0]
