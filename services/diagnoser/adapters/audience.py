"""Who may read what a diagnosis found on the nodes of a job: whoever may see the job."""

from __future__ import annotations

from shared.auth.principal import Principal, can_see
from shared.bus import Bus
from shared.catalog import CatalogWatch, asker_of
from shared.catalog.access import projects_of


class Audience:
    """Looks jobs and projects up anew each time, so that a change of members counts at once."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._catalog = CatalogWatch(bus)

    async def may_see(self, principal: Principal, job_id: str) -> bool:
        """Whether the job is their own or of a project of theirs; admins see all."""
        job = await self._bus.load_job(job_id)
        if job is None or job.deleted:
            return principal.admin
        if can_see(principal, job.owner):
            return True
        catalog = await self._catalog.refresh()
        return job.project in projects_of(asker_of(principal, catalog), catalog)
