"""Questions about the queue: who waits, and where one job stands.

An answer takes many trial plans, and scheduling must not wait for them: they are made in another thread, from a copy of
what there is at this moment, and for one question at a time. Whatever needs the read model is looked up before.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from services.scheduler.control.world import World
from services.scheduler.domain.explaining.changes import Means
from services.scheduler.domain.explaining.trials import Trials
from services.scheduler.domain.explaining.whereabouts import Whereabouts, whereabouts
from services.scheduler.domain.gang import Gang
from services.scheduler.domain.offers import other_offers
from services.scheduler.domain.placement import holds_capacity, nodes_of
from services.scheduler.domain.planning.holding import Releases
from services.scheduler.domain.standing import Asker, Standing, explained, standing_of, waiting, warned
from services.scheduler.domain.terms import Terms
from services.scheduler.handlers.finding import find_job, seen_projects
from shared.auth.principal import Principal, can_see
from shared.catalog import CatalogWatch, asker_of
from shared.clock import Clock
from shared.errors import UnavailableError
from shared.ids import gang_id
from shared.jobs import Job
from shared.readmodel import JobReadModel

QueueKey = tuple[int, int]
Answer = TypeVar("Answer")


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
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def queue(self, principal: Principal, after: QueueKey | None, limit: int) -> list[Waiting]:
        """Waiting jobs that the principal may see, in queue order, behind a place in it; one more than the limit."""
        self._check_ready()
        may_know = self._may_know(principal)

        def answer(trials: Trials) -> list[Waiting]:
            behind = (gang for gang in trials.snapshot.gangs if after is None or _key(gang) > after)
            seen = itertools.islice((gang for gang in behind if may_know(gang.job)), limit + 1)
            return [Waiting(_key(gang), waiting(gang, trials)) for gang in seen]

        return await self.answered(answer)

    async def standing(self, principal: Principal, reference: str) -> Standing:
        """Where a job stands, by id or name; raises NotFoundError, or ConflictError where several have the name."""
        self._check_ready()
        job = find_job(self.jobs, principal, self.catalog.view, reference)
        terms, asker = None if job.ended else self.world.terms(job), self.asker(principal, job)

        def answer(trials: Trials) -> Standing:
            if terms is None:
                return standing_of(job, trials)
            place = _place(job, terms, trials) if holds_capacity(job) else None
            return warned(explained(standing_of(job, trials, place), trials, asker), terms.excluded_nodes, trials)

        standing = await self.answered(answer)
        progress = self.progress(gang_id(job.id, job.attempt.number))
        return replace(standing, summary=f"{progress}; {standing.summary}") if progress else standing

    async def answered(self, answer: Callable[[Trials], Answer], also: Gang | None = None) -> Answer:
        """The answer from plans for this moment, with one more gang in the queue where given; UnavailableError."""
        async with self.turn:
            self._check_ready()
            snapshot = self.world.snapshot().frozen()
            if also is not None:
                snapshot.queue.add(also)
            return await asyncio.to_thread(answer, Trials(snapshot, self.clock.now()))

    def asker(self, principal: Principal, job: Job) -> Asker:
        """What the principal may know and use, for the answer about a job."""
        view, resolved = self.catalog.view, job.submitted.resolved
        asker = asker_of(principal, view)
        terms = Terms.of(job)
        offers = {
            role.name: other_offers(role.instance_type, role.pool_name, resolved.cluster, view, asker)
            for role in resolved.roles
        }
        return Asker(self._may_know(principal), Means(offers, terms.overhead_s))

    def _may_know(self, principal: Principal) -> Callable[[str], bool]:
        """Which of the jobs that live at this moment the principal may know of; may be asked in any thread."""
        live, projects = {job.id: job for job in self.jobs.live()}, seen_projects(principal, self.catalog.view)

        def may_know(other: str) -> bool:
            job = live.get(other)
            return job is not None and (can_see(principal, job.owner) or job.project in projects)

        return may_know

    def find(self, principal: Principal, reference: str) -> Job:
        """The job that the principal means; raises NotFoundError, ConflictError or UnavailableError."""
        self._check_ready()
        return find_job(self.jobs, principal, self.catalog.view, reference)

    def _check_ready(self) -> None:
        if not self.jobs.caught_up.is_set():
            raise UnavailableError("the scheduler is still reading past events; try again in a moment")


def _place(job: Job, terms: Terms, trials: Trials) -> Whereabouts | None:
    """Why the job is where it is, while it holds a place; None where it has just given it up."""
    gang = gang_id(job.id, job.attempt.number)
    if gang not in trials.snapshot.running:
        return None
    free = Releases(trials.snapshot.columns, [trials.snapshot.holding(gang)]).after(1)
    return whereabouts(terms.roles, nodes_of(job.attempt), free)


def _key(gang: Gang) -> QueueKey:
    return -gang.priority, gang.sequence
