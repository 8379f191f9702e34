"""Which nodes jobs hold now, from the read model of jobs; and waits for what jobs do next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from services.diagnoser.domain.waiting import waits_for
from shared.events import Event
from shared.jobs import HOLDING, Job, Recorded
from shared.readmodel import JobReadModel

Watcher = Callable[[Job], bool]


class JobHoldings:
    """Knows who works where."""

    def __init__(self, jobs: JobReadModel) -> None:
        self._jobs = jobs
        self._watchers: dict[asyncio.Event, Watcher] = {}
        self.caught_up = jobs.caught_up
        jobs.on_event(self._on_event)

    async def reached(self, sequence: int) -> None:
        """Return once the state event of a job with this sequence is known."""
        await self._jobs.reached(sequence)

    def held(self, but: str = "") -> frozenset[str]:
        """Nodes that a job holds, but for the job with this id."""
        return frozenset(node for job in self._jobs.live() if job.id != but for node in _nodes(job))

    async def placed_on(self, nodes: Collection[str]) -> None:
        """Return as soon as a job holds one of these nodes."""
        wanted = frozenset(nodes)
        if wanted.isdisjoint(self.held()):
            await self._until(lambda job: not wanted.isdisjoint(_nodes(job)))

    async def moved_on(self, request: Event) -> None:
        """Return as soon as the job does not wait for the outcome of this request any more."""
        job = self._jobs.get(request.subject)
        if job is None or waits_for(job, request):
            await self._until(lambda job: job.id == request.subject and not waits_for(job, request))

    async def _until(self, is_so: Watcher) -> None:
        """Return after an event of a job of which this is true."""
        rung = asyncio.Event()
        self._watchers[rung] = is_so
        try:
            await rung.wait()
        finally:
            del self._watchers[rung]

    def _on_event(self, _before: Job | None, after: Job, _recorded: Recorded) -> None:
        for rung, is_so in self._watchers.items():
            if is_so(after):
                rung.set()


def _nodes(job: Job) -> frozenset[str]:
    placement = job.attempt.placement
    if job.state not in HOLDING or placement is None:
        return frozenset()
    return frozenset(node for role in placement.roles for node in role.nodes)
