"""Putting on record what the controller has decided, and telling logs and metrics of it.

While NATS is away the same is written again and again: the server may have taken the first, and must not get another.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from functools import partial

import structlog

from services.scheduler.control.journal import Journal
from services.scheduler.control.world import World
from services.scheduler.domain.placement import placed_event
from services.scheduler.domain.planning.plan import Start
from services.scheduler.domain.reconcile import Append, Fact, Replace, Report, RequestDiagnosis
from services.scheduler.metrics import SchedulerMetrics
from shared.bus import BusUnavailableError
from shared.events import DiagnosisRequested, PreemptionRequested
from shared.jobs import Job

# Actions that put something on record.
Write = Append | Report | RequestDiagnosis | Replace


class Recorder:
    """The journal, with what goes into events beside the decision."""

    def __init__(self, journal: Journal, world: World, metrics: SchedulerMetrics) -> None:
        self._journal = journal
        self._world = world
        self._metrics = metrics
        self._log = structlog.get_logger(service="scheduler")

    async def record(self, job: Job, actions: Sequence[Write], now: datetime) -> int:
        """Write them one after the other; gives the last one's sequence. Raises as `Journal.append` does."""
        sequence = 0
        for action in actions:
            sequence = await self._record(job, action, now)
        return sequence

    async def record_placement(self, job: Job, start: Start, now: datetime) -> int:
        """Write where a gang starts; gives the event's sequence. Raises as `Journal.append` does."""
        terms = self._world.terms(job)
        diagnosing = terms is not None and terms.diagnosing
        names = self._world.node_names({seat.node for seat in start.seats})
        placed = placed_event(job.submitted.resolved, start.seats, names, diagnosing=diagnosing)
        sequence = await self._append(job, (Fact(placed, now, start.gang.attempt),))
        self._metrics.placed.inc()
        return sequence

    async def record_preemptions(self, requests: Sequence[tuple[Job, PreemptionRequested]], now: datetime) -> int:
        """Write who makes room, all or none; gives the last event's sequence. Raises as `Journal.append` does."""
        sequence = await self.insist(lambda: self._journal.preempt(requests, now))
        for job, request in requests:
            self._metrics.transitions.labels(request.SUFFIX).inc()
            self._log.info("preempted", job=job.id, attempt=job.attempt.number, by=request.by)
        return sequence

    async def insist(self, write: Callable[[], Coroutine[None, None, int]]) -> int:
        """What the write gives, however often it takes."""
        while True:
            try:
                return await write()
            except BusUnavailableError as error:
                self._log.warning("write_waits", reason=error.message)

    async def _record(self, job: Job, action: Write, now: datetime) -> int:
        match action:
            case Report(changes):
                return await self.insist(lambda: self._journal.report(job, changes, now))
            case RequestDiagnosis():
                request = self._diagnosis_request(action)
                return await self.insist(partial(self._journal.request_diagnosis, job, request, now))
            case Replace(found, reason):
                names = self._world.node_names({*found.left, *(seat.node for seat in found.seats)})
                payload = found.event(job.submitted.resolved, names, reason)
                return await self._append(job, (Fact(payload, now, job.attempt.number),))
            case Append(facts):
                return await self._append(job, facts)

    def _diagnosis_request(self, wanted: RequestDiagnosis) -> DiagnosisRequested:
        nodes = wanted.nodes
        return DiagnosisRequested(
            nodes=nodes,
            machines=self._world.machines(nodes),
            names=self._world.node_names(nodes),
            round=wanted.round,
            only=wanted.only,
        )

    async def _append(self, job: Job, facts: tuple[Fact, ...]) -> int:
        sequence = await self.insist(lambda: self._journal.append(job, facts))
        for fact in facts:
            self._metrics.transitions.labels(fact.payload.SUFFIX).inc()
            self._log.info("transition", job=job.id, attempt=fact.attempt, to=fact.payload.SUFFIX)
        return sequence
