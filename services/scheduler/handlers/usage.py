"""Questions about usage: the records, the bill, and whether the bill is what the events of the jobs say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from services.scheduler.control.usage_book import UsageBook
from services.scheduler.control.usage_queries import BillLine, UsageFilter, UsageQueries
from services.scheduler.domain.metering import Used, totals
from services.scheduler.domain.verification import Comparison, compare
from services.scheduler.handlers.finding import find_job
from shared.auth.principal import Principal
from shared.bus import Bus
from shared.catalog import CatalogWatch, asker_of
from shared.catalog.access import projects_of
from shared.clock import Clock
from shared.errors import UnavailableError
from shared.jobs import Job
from shared.readmodel import JobQuery, JobReadModel

Position = tuple[str, str]
VERIFIED_AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True)
class Bill:
    """Lines, what all of them come to, and what a single job has used beyond what is on record."""

    lines: list[BillLine]
    total: Used
    accrued: Used | None


@dataclass(frozen=True, slots=True)
class Verified:
    """What became of one job's comparison."""

    job: Job
    comparisons: list[Comparison]


@dataclass(frozen=True, slots=True)
class UsageHandlers:
    """The use cases; users see the usage of the jobs that they see, deleted ones included."""

    book: UsageBook
    jobs: JobReadModel
    catalog: CatalogWatch
    bus: Bus
    clock: Clock

    def events(
        self, principal: Principal, wanted: UsageFilter, after: Position | None, limit: int
    ) -> list[dict[str, object]]:
        """Usage events, newest window first; one more than the limit."""
        return UsageQueries(self.book).events(self._allowed(principal, wanted)[0], after, limit)

    def bill(self, principal: Principal, wanted: UsageFilter, after: tuple[str | int, ...] | None, limit: int) -> Bill:
        """What it comes to; one line more than the limit."""
        allowed, job = self._allowed(principal, wanted)
        queries = UsageQueries(self.book)
        total = queries.total(allowed)
        is_whole = wanted.since is None and wanted.until is None
        accrued = self._used_so_far(job) - total if job is not None and is_whole else None
        return Bill(queries.lines(allowed, after, limit), total, accrued)

    async def verify(self, principal: Principal, reference: str) -> Verified:
        """One job's bill against its events in JOBS, read anew."""
        self._check_ready()
        job = find_job(self.jobs, principal, self.catalog.view, reference, with_deleted=True)
        return await self._verified(job)

    async def verify_page(self, principal: Principal, after: Position | None) -> tuple[list[Verified], Position | None]:
        """The same for some of all jobs that the principal may see, and where to go on."""
        self._check_ready()
        page = self.jobs.query(
            JobQuery(
                visible_to=None if principal.admin else principal.user_id,
                visible_projects=self._projects(principal),
                after=after,
                limit=VERIFIED_AT_ONCE,
                with_deleted=True,
            )
        )
        return [await self._verified(job) for job in page.jobs], page.next_after

    async def _verified(self, job: Job) -> Verified:
        folded = await self.bus.load_job(job.id) or job
        lines = UsageQueries(self.book).lines(UsageFilter(job=job.id))
        recorded = {(line.key.attempt, line.key.role, line.key.phase): line.used for line in lines}
        return Verified(folded, compare(folded, recorded, self.clock.now()))

    def _allowed(self, principal: Principal, wanted: UsageFilter) -> tuple[UsageFilter, Job | None]:
        """The filter with the rights of the principal in it; raises NotFoundError where they may not see the job."""
        self._check_ready()
        if wanted.job is not None:
            job = find_job(self.jobs, principal, self.catalog.view, wanted.job, with_deleted=True)
            return replace(wanted, job=job.id), job
        if principal.admin:
            return wanted, None
        return replace(wanted, visible_to=principal.user_id, visible_projects=self._projects(principal)), None

    def _projects(self, principal: Principal) -> tuple[str, ...]:
        return projects_of(asker_of(principal, self.catalog.view), self.catalog.view)

    def _used_so_far(self, job: Job) -> Used:
        now = self.clock.now()
        spells = (used for attempt in job.attempts for used in totals(job, attempt, now).values())
        return sum(spells, Used())

    def _check_ready(self) -> None:
        if not (self.jobs.caught_up.is_set() and self.book.caught_up.is_set()):
            raise UnavailableError("the scheduler is still reading past events; try again in a moment")
