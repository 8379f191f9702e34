"""The jobs that somebody may see, from the service's own read model of jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Final

from shared.auth.principal import Principal
from shared.catalog import CatalogWatch, asker_of
from shared.catalog.access import projects_of
from shared.jobs import Job
from shared.readmodel import JobQuery, JobReadModel

_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class ReadModelJobs:
    """Jobs by the rules that lists of jobs have."""

    reader: JobReadModel
    catalog: CatalogWatch

    async def visible(
        self, principal: Principal, project: str | None, after: tuple[str, str] | None
    ) -> AsyncIterator[Job]:
        await self.reader.caught_up.wait()
        query = await self._query(principal, project)
        while True:
            page = self.reader.query(replace(query, after=after, limit=_PAGE))
            for job in page.jobs:
                yield job
            after = page.next_after
            if after is None:
                return

    async def _query(self, principal: Principal, project: str | None) -> JobQuery:
        if project is None:
            return JobQuery(owner=principal.user_id)
        if principal.admin:
            return JobQuery(project=project)
        catalog = await self.catalog.refresh()
        visible = projects_of(asker_of(principal, catalog), catalog)
        return JobQuery(visible_to=principal.user_id, visible_projects=visible, project=project)
