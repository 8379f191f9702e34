"""Questions about the queue: who waits, and where one job stands."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

from services.scheduler.control.world import World
from services.scheduler.domain.gang import Gang
from services.scheduler.domain.offers import alternatives
from services.scheduler.domain.standing import Standing, standing_of
from services.scheduler.handlers.finding import find_job, may_see
from shared.auth.principal import Principal
from shared.catalog import Catalog, CatalogWatch, asker_of
from shared.errors import UnavailableError
from shared.ids import gang_id
from shared.jobs import Job
from shared.readmodel import JobReadModel

QueueKey = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A waiting job and its key in queue order."""

    key: QueueKey
    standing: Standing


@dataclass(frozen=True, slots=True)
class StandingHandlers:
    """The use cases that only read."""

    world: World
    catalog: CatalogWatch
    jobs: JobReadModel
    progress: Callable[[str], str] = lambda _gang: ""

    def queue(self, principal: Principal, after: QueueKey | None, limit: int) -> list[Waiting]:
        """Waiting jobs that the principal may see, in queue order, behind a place in it; one more than the limit."""
        self._check_ready()
        snapshot, view = self.world.snapshot(), self.catalog.view
        behind = (gang for gang in snapshot.gangs if after is None or _key(gang) > after)
        jobs = ((gang, self.jobs.get(gang.job)) for gang in behind)
        seen = ((gang, job) for gang, job in jobs if job is not None and may_see(principal, job, view))
        return [
            Waiting(_key(gang), standing_of(job, snapshot, self._alternatives(job, principal, view)))
            for gang, job in itertools.islice(seen, limit + 1)
        ]

    def standing(self, principal: Principal, reference: str) -> Standing:
        """Where a job stands, by id or name; raises NotFoundError, or ConflictError where several have the name."""
        self._check_ready()
        job = find_job(self.jobs, principal, self.catalog.view, reference)
        standing = standing_of(job, self.world.snapshot(), self._alternatives(job, principal, self.catalog.view))
        progress = self.progress(gang_id(job.id, job.attempt.number))
        return replace(standing, summary=f"{progress}; {standing.summary}") if progress else standing

    def _alternatives(self, job: Job, principal: Principal, view: Catalog) -> dict[str, tuple[str, ...]]:
        asker, resolved = asker_of(principal, view), job.submitted.resolved
        return {role.name: alternatives(role.instance_type, resolved.cluster, view, asker) for role in resolved.roles}

    def find(self, principal: Principal, reference: str) -> Job:
        """The job that the principal means; raises NotFoundError, ConflictError or UnavailableError."""
        self._check_ready()
        return find_job(self.jobs, principal, self.catalog.view, reference)

    def _check_ready(self) -> None:
        if not self.jobs.caught_up.is_set():
            raise UnavailableError("the scheduler is still reading past events; try again in a moment")


def _key(gang: Gang) -> QueueKey:
    return -gang.priority, gang.sequence
