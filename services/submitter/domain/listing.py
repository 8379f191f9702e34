"""Which jobs somebody sees: the rules of visibility, and the query of a list."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from shared.auth.principal import Principal, can_see
from shared.catalog import Catalog, User, asker_of
from shared.catalog.access import projects_of
from shared.documents.fields import shown
from shared.errors import ConflictError, NotFoundError
from shared.http.paging import DEFAULT_LIMIT, MAX_LIMIT, decode_cursor
from shared.jobs import Job, JobState
from shared.readmodel import JobQuery


class JobFilters(BaseModel):
    """Query of the job list; all given filters must hold, several states are alternatives."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: tuple[JobState, ...] = Field((), description="states, any of which will do")
    label: tuple[str, ...] = Field((), description="labels that the job must all have")
    project: str | None = Field(None, description="name of a project")
    owner: str | None = Field(None, description="name of a user")
    limit: int = Field(DEFAULT_LIMIT, ge=1, le=MAX_LIMIT, description="most items to return")
    cursor: str | None = Field(None, description="`next` of the page before")


def query_of(filters: JobFilters, principal: Principal, catalog: Catalog) -> JobQuery:
    """The query for what the principal may see of what the filters ask for; raises InvalidInputError."""
    after = decode_cursor(filters.cursor, str, str)
    return JobQuery(
        visible_to=None if principal.admin else principal.user_id,
        visible_projects=projects_of(asker_of(principal, catalog), catalog),
        owner=User.id_of(filters.owner) if filters.owner is not None else None,
        project=filters.project,
        states=filters.state,
        labels=filters.label,
        after=(str(after[0]), str(after[1])) if after else None,
        limit=filters.limit,
    )


def is_visible(job: Job, principal: Principal, catalog: Catalog) -> bool:
    """Whether the principal may see the job: the owner, those in its project, admins."""
    if job.deleted:
        return False
    return can_see(principal, job.owner) or job.project in projects_of(asker_of(principal, catalog), catalog)


def only_one(jobs: Sequence[Job], name: str) -> Job:
    """The one job of others that a name means; raises NotFoundError or ConflictError."""
    if not jobs:
        raise NotFoundError("job", name)
    if len(jobs) > 1:
        ids = ", ".join(f"{job.id} of {job.submitted.owner_name}" for job in jobs)
        raise ConflictError(f"several jobs are called {shown(name)}; give the id of one: {ids}")
    return jobs[0]
