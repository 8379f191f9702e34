"""Which job a reference means, and whether the asker may see it: what every route asks first.

An id is looked up in the job's events, a name in the claims on names: first the asker's own, then those of the other
users as far as the asker may see their jobs. Nothing is remembered between requests, so that a change of a project's
members counts at once.
"""

from __future__ import annotations

from typing import Protocol

from shared.auth.principal import Principal, can_see
from shared.bus import Bus
from shared.catalog import Catalog, CatalogWatch, User, asker_of
from shared.catalog.access import projects_of
from shared.errors import ConflictError, NotFoundError
from shared.events import NameClaimed
from shared.ids import is_job_id, name_token
from shared.jobs import Job


class Jobs(Protocol):
    """Where jobs are found."""

    async def find(self, principal: Principal, reference: str) -> Job:
        """The job, by id or name; raises NotFoundError where there is none that the asker may see."""
        ...

    async def reload(self, job: Job) -> Job | None:
        """The job as it is now; None where it was deleted."""
        ...


class BusJobs:
    """Jobs from their events."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._catalog = CatalogWatch(bus)

    async def find(self, principal: Principal, reference: str) -> Job:
        by_id = await self._visible(principal, reference) if is_job_id(reference) else None
        if by_id is not None:
            return by_id
        own = await self._named(principal, principal.user_id, reference)
        if own is not None:
            return own
        return await self._of_others(principal, reference)

    async def reload(self, job: Job) -> Job | None:
        found = await self._bus.load_job(job.id)
        return found if found is not None and not found.deleted else None

    async def _of_others(self, principal: Principal, name: str) -> Job:
        catalog = await self._catalog.refresh()
        owners = (user.id for user in catalog.all(User))
        named = [await self._named(principal, owner, name) for owner in owners]
        found = [job for job in named if job is not None]
        if not found:
            raise NotFoundError("job", name)
        if len(found) > 1:
            raise ConflictError(f"several jobs that you may see are called {name[:80]!r}; give the id of one")
        return found[0]

    async def _named(self, principal: Principal, owner: str, name: str) -> Job | None:
        claim = await self._bus.history.last_event(f"tm.name.{name_token(owner, name)}")
        if claim is None or not isinstance(claim.event.data, NameClaimed):
            return None
        return await self._visible(principal, claim.event.subject)

    async def _visible(self, principal: Principal, job_id: str) -> Job | None:
        job = await self._bus.load_job(job_id)
        if job is None or job.deleted:
            return None
        if can_see(principal, job.owner):
            return job
        return job if _in_project(principal, job, await self._catalog.refresh()) else None


def _in_project(principal: Principal, job: Job, catalog: Catalog) -> bool:
    return job.project in projects_of(asker_of(principal, catalog), catalog)
