"""Questions about nodes and the queue: what is there, who waits, and where one job stands."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

from services.scheduler.control.world import World
from services.scheduler.domain.gang import Gang
from services.scheduler.domain.nodes import Room
from services.scheduler.domain.offers import alternatives, usable_pools
from services.scheduler.domain.standing import Standing, standing_of
from services.scheduler.domain.views import pools_of
from services.scheduler.handlers.finding import find_job, may_see
from shared.auth.principal import Principal
from shared.catalog import Catalog, CatalogWatch, asker_of
from shared.errors import NotFoundError, UnavailableError
from shared.ids import gang_id
from shared.jobs import Job
from shared.readmodel import JobReadModel


@dataclass(frozen=True, slots=True)
class SeenNode:
    """A node with what is free on it, and those of its pools that the asker may use."""

    room: Room
    pools: tuple[str, ...]


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

    def nodes(self, principal: Principal) -> list[SeenNode]:
        """Nodes of the pools that the principal may use, by name; all of them for an admin."""
        view = self.catalog.view
        usable = usable_pools(view, asker_of(principal, view))
        pools = {name: pool for name, pool in self.world.pools.items() if name in usable}
        seen = (SeenNode(room, tuple(pools_of(room, pools))) for room in self.world.ledger.rooms.values())
        return sorted(
            (node for node in seen if node.pools or principal.admin),
            key=lambda node: (node.room.node.name, node.room.node.id),
        )

    def node(self, principal: Principal, name: str) -> SeenNode:
        """One node, by name or id; raises NotFoundError."""
        found = next((seen for seen in self.nodes(principal) if seen.room.node.is_named(frozenset({name}))), None)
        if found is None:
            raise NotFoundError("node", name)
        return found

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

    def _check_ready(self) -> None:
        if not self.jobs.caught_up.is_set():
            raise UnavailableError("the scheduler is still reading past events; try again in a moment")


def _key(gang: Gang) -> QueueKey:
    return -gang.priority, gang.sequence
