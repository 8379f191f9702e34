"""Events of one job as they happen, for any number of followers, out of the one read model that follows them all.

A follower subscribes first and reads the history then, so nothing falls in between; what it gets twice it knows by its
sequence.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator

from shared.bus import Bus
from shared.events import Deleted, Failed, Stopped, Succeeded
from shared.jobs import Job, Recorded
from shared.readmodel import JobReadModel

_LAST = (Succeeded, Failed, Stopped, Deleted)


class Followers:
    """Hands the events that the read model folds to those who follow their job."""

    def __init__(self, bus: Bus, jobs: JobReadModel) -> None:
        self._bus = bus
        self._queues: dict[str, set[asyncio.Queue[Recorded]]] = defaultdict(set)
        jobs.on_event(self._on_event)

    async def follow(self, job: str, after: int) -> AsyncIterator[Recorded]:
        """The job's events behind a sequence, until the one that ends it."""
        queue: asyncio.Queue[Recorded] = asyncio.Queue()
        self._queues[job].add(queue)
        try:
            last = after
            for recorded in await self._bus.history.job_events(job):
                if recorded.sequence > last:
                    yield recorded
                    last = recorded.sequence
                if isinstance(recorded.event.data, _LAST):
                    return
            while True:
                recorded = await queue.get()
                if recorded.sequence > last:
                    yield recorded
                    last = recorded.sequence
                if isinstance(recorded.event.data, _LAST):
                    return
        finally:
            self._unsubscribe(job, queue)

    def _unsubscribe(self, job: str, queue: asyncio.Queue[Recorded]) -> None:
        self._queues[job].discard(queue)
        if not self._queues[job]:
            del self._queues[job]

    def _on_event(self, _before: Job | None, after: Job, recorded: Recorded) -> None:
        for queue in self._queues.get(after.id, ()):
            queue.put_nowait(recorded)
