"""Putting the scheduler's facts on record: transitions behind the fence, reports beside it.

Every event has an id made of job, attempt and kind, and a report one made of its content, so that whatever is written
again after a crash or a lost answer is the same event and not a second one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from services.scheduler.domain.reconcile import Fact
from shared.bus import Bus, Fence, Transition
from shared.events import DiagnosisRequested, Event, Payload, PreemptionRequested, ReplicaChange, ReplicasChanged
from shared.ids import digest
from shared.jobs import Job

# Events are bounded; even with a long message on each exit these stay far below.
CHANGES_MAX: Final = 200
_DIGEST_CHARS: Final = 16


class Journal:
    """The write side of the scheduler while it leads."""

    def __init__(self, bus: Bus, fence: Fence) -> None:
        self._bus = bus
        self._fence = fence

    async def append(self, job: Job, facts: Sequence[Fact]) -> int:
        """Commit the transitions, all or none, if the job is still as it was seen; gives the last one's sequence.

        Raises ConcurrentWriteError, FencedError, BusUnavailableError.
        """
        events = [_event(job, fact.payload, fact.at, fact.attempt) for fact in facts]
        first, *rest = events
        guarded = [Transition(first, job.sequence), *(Transition(event, None) for event in rest)]
        return await self._bus.append_batch([self._fence, *guarded])

    async def preempt(self, requests: Sequence[tuple[Job, PreemptionRequested]], now: datetime) -> int:
        """Have these gangs make room, all or none, if all are still as they were seen; gives the last one's sequence.

        Raises ConcurrentWriteError, FencedError, BusUnavailableError.
        """
        events = [(_event(job, request, now, job.attempt.number), job.sequence) for job, request in requests]
        return await self._bus.append_batch([self._fence, *(Transition(event, last) for event, last in events)])

    async def report(self, job: Job, changes: tuple[ReplicaChange, ...], now: datetime) -> int:
        """Tell what happened to replicas; gives the last event's sequence. Raises BusUnavailableError."""
        sequence = 0
        for first in range(0, len(changes), CHANGES_MAX):
            sequence = await self._report(job, changes[first : first + CHANGES_MAX], now)
        return sequence

    async def request_diagnosis(self, job: Job, request: DiagnosisRequested, now: datetime) -> int:
        """Ask for a look at the nodes; gives the event's sequence. Raises BusUnavailableError."""
        return await self._bus.observe(_event(job, request, now, job.attempt.number))

    async def _report(self, job: Job, changes: tuple[ReplicaChange, ...], now: datetime) -> int:
        names = [f"{change.role}-{change.index}-{change.state}" for change in changes]
        part = digest(*names)[:_DIGEST_CHARS]
        return await self._bus.observe(_event(job, ReplicasChanged(changes=changes), now, job.attempt.number, part))


def _event(job: Job, payload: Payload, time: datetime, attempt: int, part: str = "") -> Event:
    return Event.of(
        payload,
        job=job.id,
        attempt=attempt,
        time=time,
        owner=job.owner,
        project=job.project,
        part=part,
        traceparent=job.traceparent,
    )
