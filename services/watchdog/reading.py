"""What users may read of incidents: those of their own jobs and projects, as admins all; evidence only their own."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from services.watchdog.adapters.incident_log import IncidentLog, IncidentQuery, KeptIncident, KeptOutage
from shared.auth.principal import Principal, can_see
from shared.bus import Bus
from shared.bus.blobs import Blobs
from shared.catalog import Catalog, CatalogWatch, User, asker_of
from shared.catalog.access import projects_of
from shared.documents.fields import shown
from shared.errors import ConflictError, ForbiddenError, NotFoundError
from shared.ids import is_job_id
from shared.jobs import Job
from shared.readmodel import JobReadModel


@dataclass(frozen=True, slots=True)
class IncidentFilters:
    """What a list is to hold; `job` and `owner` as people write them."""

    query: IncidentQuery
    job: str | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class ReadHandlers:
    """The use cases."""

    bus: Bus
    jobs: JobReadModel
    catalog: CatalogWatch
    log: IncidentLog
    blobs: Blobs

    async def incidents(self, principal: Principal, filters: IncidentFilters) -> list[KeptIncident]:
        """Incidents of jobs that the principal may see, up to one more than the limit."""
        view = await self.catalog.refresh()
        query = filters.query
        if not principal.admin:
            projects = projects_of(asker_of(principal, view), view)
            query = replace(query, visible_to=principal.user_id, visible_projects=projects)
        query = replace(query, with_shadow=principal.admin)
        if filters.job is not None:
            query = replace(query, job=(await self.find(principal, filters.job)).id)
        if filters.owner is not None:
            query = replace(query, owner=User.id_of(filters.owner))
        return self.log.incidents(query)

    async def outages(self, principal: Principal, before: int | None, limit: int) -> list[KeptOutage]:
        """Platform incidents: all for admins, for others those that hit jobs that they may see, with these alone."""
        found = self.log.outages(before, limit)
        if principal.admin:
            return found
        view = await self.catalog.refresh()
        return [each for outage in found if (each := self._as_seen_by(principal, view, outage)).jobs]

    async def evidence(self, principal: Principal, reference: str, digest: str) -> bytes:
        """The bundle of that digest; raises ForbiddenError for whoever is neither the job's owner nor an admin."""
        job = await self.find_own(principal, reference)
        if all(each.digest != digest for attempt in job.attempts for each in attempt.evidence):
            raise NotFoundError("evidence", digest)
        with tempfile.TemporaryDirectory() as directory:
            await self.blobs.fetch(digest, Path(directory) / "bundle")
            return await asyncio.to_thread((Path(directory) / "bundle").read_bytes)

    async def find_own(self, principal: Principal, reference: str) -> Job:
        """The job by id or name, of the principal alone."""
        job = await self.find(principal, reference)
        if not can_see(principal, job.owner):
            raise ForbiddenError(
                "the evidence of a job shows what its code does; only its owner and admins may read it"
            )
        return job

    async def find(self, principal: Principal, reference: str) -> Job:
        """The job by id or name, of those that the principal may see; raises NotFoundError, ConflictError."""
        view = await self.catalog.refresh()
        by_id = await self._by_id(reference) if is_job_id(reference) else None
        if by_id is not None and not by_id.deleted and may_see(principal, by_id, view):
            return by_id
        own = self.jobs.find(principal.user_id, reference)
        found = [own] if own else [job for job in self.jobs.named(reference) if may_see(principal, job, view)]
        if not found:
            raise NotFoundError("job", reference)
        if len(found) > 1:
            raise ConflictError(f"several jobs that you may see are called {shown(reference)}; give the id of one")
        return found[0]

    async def _by_id(self, job: str) -> Job | None:
        return self.jobs.get(job) or await self.bus.load_job(job)

    def _as_seen_by(self, principal: Principal, view: Catalog, outage: KeptOutage) -> KeptOutage:
        jobs = [self.jobs.get(job) for job in outage.jobs]
        return replace(outage, jobs=tuple(job.id for job in jobs if job and may_see(principal, job, view)))


def may_see(principal: Principal, job: Job, view: Catalog) -> bool:
    """Whether the job is the principal's own, or of a project that they are in, or they are an admin."""
    return can_see(principal, job.owner) or job.project in projects_of(asker_of(principal, view), view)
