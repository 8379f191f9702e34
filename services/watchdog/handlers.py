"""What the watchdog does when an attempt ended: load the job, judge, commit the decision.

The commit is a compare-and-set on the job's sequence, so a message delivered twice, or a stop request that comes in
between, changes nothing that it should not: whoever loses reads the job again and judges anew.
"""

from __future__ import annotations

from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter

from services.watchdog.decision import ROOT_CAUSES, decide
from shared.bus import Bus, ConcurrentWriteError
from shared.clock import Clock
from shared.errors import UnavailableError
from shared.events import Event, RetryDecided
from shared.jobs import Job, Recorded
from shared.telemetry import bounded, current_traceparent

MAX_TRIES: Final = 10


class RetryDecisions:
    """Handler of `attempt.ended`."""

    def __init__(self, bus: Bus, clock: Clock, registry: CollectorRegistry) -> None:
        self._bus = bus
        self._clock = clock
        self._log = structlog.get_logger(service="watchdog")
        self._decisions = Counter(
            "trainmaster_watchdog_decisions",
            "Retry decisions, by what ended the attempt.",
            ("retry", "root_cause"),
            registry=registry,
        )

    async def on_attempt_ended(self, recorded: Recorded) -> None:
        """Decide about the attempt, unless somebody did or nothing is to be decided."""
        for _ in range(MAX_TRIES):
            job = await self._bus.load_job(recorded.event.subject)
            decision = decide(job) if job is not None else None
            if job is None or decision is None:
                return
            try:
                await self._bus.append(self._event(job, decision, recorded.event), expected=job.sequence)
            except ConcurrentWriteError:
                continue
            self._note(decision)
            return
        raise UnavailableError(f"job {recorded.event.subject} changed {MAX_TRIES} times while it was decided about")

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
        self._log.info("retry_decided", retry=decision.retry, root_cause=decision.root_cause, reason=decision.reason)
