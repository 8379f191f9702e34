"""Questions about the queue: who waits, and where one job stands."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

from services.scheduler.control.world import World
from services.scheduler.domain.explaining.trials import Trials
from services.scheduler.domain.explaining.whereabouts import Whereabouts, whereabouts
from services.scheduler.domain.gang import Gang
from services.scheduler.domain.offers import other_offers
from services.scheduler.domain.placement import holds_capacity, nodes_of
from services.scheduler.domain.planning.holding import Releases
from services.scheduler.domain.planning.plan import Snapshot
from services.scheduler.domain.standing import Asker, Standing, explained, standing_of
from services.scheduler.domain.terms import Terms
from services.scheduler.handlers.finding import find_job, may_see
from shared.auth.principal import Principal
from shared.catalog import CatalogWatch, asker_of
from shared.clock import Clock
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
    clock: Clock
    progress: Callable[[str], str] = lambda _gang: ""

    def queue(self, principal: Principal, after: QueueKey | None, limit: int) -> list[Waiting]:
        """Waiting jobs that the principal may see, in queue order, behind a place in it; one more than the limit."""
        self._check_ready()
        trials, view = self._trials(), self.catalog.view
        behind = (gang for gang in trials.snapshot.gangs if after is None or _key(gang) > after)
        jobs = ((gang, self.jobs.get(gang.job)) for gang in behind)
        seen = ((gang, job) for gang, job in jobs if job is not None and may_see(principal, job, view))
        return [Waiting(_key(gang), standing_of(job, trials)) for gang, job in itertools.islice(seen, limit + 1)]

    def standing(self, principal: Principal, reference: str) -> Standing:
        """Where a job stands, by id or name; raises NotFoundError, or ConflictError where several have the name."""
        self._check_ready()
        job = find_job(self.jobs, principal, self.catalog.view, reference)
        trials = self._trials()
        asker = self.asker(principal, job)
        standing = explained(standing_of(job, trials, self._place(job, trials)), trials, asker)
        progress = self.progress(gang_id(job.id, job.attempt.number))
        return replace(standing, summary=f"{progress}; {standing.summary}") if progress else standing

    def snapshot(self) -> Snapshot:
        """What plans are made from now; raises UnavailableError."""
        self._check_ready()
        return self.world.snapshot()

    def _trials(self) -> Trials:
        return Trials(self.world.snapshot(), self.clock.now())

    def asker(self, principal: Principal, job: Job) -> Asker:
        """What the principal may know and use, for the answer about a job."""
        view, resolved = self.catalog.view, job.submitted.resolved
        asker = asker_of(principal, view)
        terms = Terms.of(job)

        def may_know(other: str) -> bool:
            found = self.jobs.get(other)
            return found is not None and may_see(principal, found, view)

        offers = {
            role.name: other_offers(role.instance_type, role.pool_name, resolved.cluster, view, asker)
            for role in resolved.roles
        }
        return Asker(may_know, offers, terms.overhead_s)

    def _place(self, job: Job, trials: Trials) -> Whereabouts | None:
        """Why the job is where it is, while it holds a place."""
        terms = self.world.terms(job) if holds_capacity(job) else None
        if terms is None:
            return None
        held = trials.snapshot.holding(gang_id(job.id, job.attempt.number))
        free = Releases(trials.snapshot.columns, [held]).after(1)
        return whereabouts(terms.roles, nodes_of(job.attempt), free)

    def find(self, principal: Principal, reference: str) -> Job:
        """The job that the principal means; raises NotFoundError, ConflictError or UnavailableError."""
        self._check_ready()
        return find_job(self.jobs, principal, self.catalog.view, reference)

    def _check_ready(self) -> None:
        if not self.jobs.caught_up.is_set():
            raise UnavailableError("the scheduler is still reading past events; try again in a moment")


def _key(gang: Gang) -> QueueKey:
    return -gang.priority, gang.sequence
