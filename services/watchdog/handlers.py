"""What the watchdog does when an attempt ended: load the job, wait for its logs, judge, commit the decision.

The commit is a compare-and-set on the job's sequence, so a message delivered twice, or a stop request that comes in
between, changes nothing that it should not: whoever loses reads the job again and judges anew.

A message that was in hand when a watchdog died comes again only after a while; `take_over` decides such jobs at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter
from pydantic import ValidationError

from services.watchdog.domain.policy import decide, is_due, logs_to_await, logs_with_a_cause
from services.watchdog.domain.suspicion import suspicions
from services.watchdog.domain.terms import Terms
from services.watchdog.domain.wording import ROOT_CAUSES
from services.watchdog.evidence import Evidence
from services.watchdog.rulebooks import Rulebooks
from shared.bus import Bus, ConcurrentWriteError
from shared.bus.deadletters import UnhandleableError
from shared.clock import Clock
from shared.errors import TrainmasterError, UnavailableError
from shared.events import AttemptEnded, Event, RetryDecided
from shared.jobs import Job, Recorded
from shared.telemetry import bounded, current_traceparent

MAX_TRIES: Final = 10


class RetryDecisions:
    """Handler of `attempt.ended`."""

    def __init__(
        self, bus: Bus, clock: Clock, registry: CollectorRegistry, evidence: Evidence, rulebooks: Rulebooks
    ) -> None:
        self._bus = bus
        self._clock = clock
        self._evidence = evidence
        self._rulebooks = rulebooks
        self._log = structlog.get_logger(service="watchdog")
        self._decisions = Counter(
            "trainmaster_watchdog_decisions",
            "Retry decisions, by what ended the attempt.",
            ("retry", "root_cause"),
            registry=registry,
        )

    async def on_attempt_ended(self, recorded: Recorded) -> None:
        """Decide about the attempt, unless somebody did or nothing is to be decided."""
        await self._await_logs(recorded.event.subject)
        for _ in range(MAX_TRIES):
            job = await self._bus.load_job(recorded.event.subject)
            decision = self._decide(job) if job and is_due(job) else None
            if job is None or decision is None:
                return
            try:
                await self._bus.append(self._event(job, decision, recorded.event), expected=job.sequence)
            except ConcurrentWriteError:
                continue
            self._note(decision)
            await self._suspect(job, decision)
            return
        raise UnavailableError(f"job {recorded.event.subject} changed {MAX_TRIES} times while it was decided about")

    async def take_over(self, jobs: Iterable[Job]) -> None:
        """Decide about jobs that wait already: who was to do it may have died, and is given a minute to come back."""
        await asyncio.gather(*(self._take_over(job) for job in jobs if is_due(job)))

    async def _take_over(self, job: Job) -> None:
        try:
            ended = await self._bus.history.last_state(job.id)
            if ended is not None and isinstance(ended.event.data, AttemptEnded):
                await self.on_attempt_ended(ended)
        except TrainmasterError as error:
            # The event is still with the consumer and comes again.
            self._log.warning("not_taken_over", job=job.id, reason=error.message)

    async def _await_logs(self, job_id: str) -> None:
        job = await self._bus.load_job(job_id)
        if job is None or not is_due(job):
            return
        deciding = logs_to_await(job, _terms(job))
        if deciding:
            await self._evidence.await_logs(job, deciding)
        else:
            await self._evidence.await_cause(job, logs_with_a_cause(job))

    def _decide(self, job: Job) -> RetryDecided | None:
        return decide(job, _terms(job), self._rulebooks.catalogue, self._evidence.heard(job))

    async def _suspect(self, job: Job, decision: RetryDecided) -> None:
        """Tell the ledger of nodes; a note that is lost with the connection costs no attempt."""
        for event, subject in suspicions(job, decision, self._clock.now()):
            try:
                await self._bus.observe(event, subject=subject)
            except TrainmasterError as error:
                self._log.warning("suspicion_lost", job=job.id, reason=error.message)

    def _event(self, job: Job, decision: RetryDecided, cause: Event) -> Event:
        return Event.of(
            decision,
            job=job.id,
            attempt=job.attempt.number,
            time=self._clock.now(),
            owner=job.owner,
            project=job.project,
            causation=cause.message_id,
            traceparent=current_traceparent(),
        )

    def _note(self, decision: RetryDecided) -> None:
        cause = bounded(decision.root_cause or "", ROOT_CAUSES)
        self._decisions.labels(str(decision.retry).lower(), cause).inc()
        self._log.info(
            "retry_decided",
            retry=decision.retry,
            rule=decision.rule,
            root_cause=decision.root_cause,
            cause=decision.cause.rule if decision.cause else None,
            budget_left=decision.budget_left,
            reason=decision.reason,
        )


def _terms(job: Job) -> Terms:
    try:
        return Terms.of(job)
    except ValidationError as error:
        raise UnhandleableError(
            "spec-unreadable", f"this version cannot read the spec of job {job.id}: {error}"
        ) from error
