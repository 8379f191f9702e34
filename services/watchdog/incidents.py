"""Putting incidents on record: an observation each, counted by rule."""

from __future__ import annotations

from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter

from services.watchdog.domain.presets import PRESETS
from services.watchdog.domain.silence import SILENCE_RULES
from shared.bus import Bus, BusUnavailableError
from shared.clock import Clock
from shared.events import Event, IncidentRaised
from shared.jobs import Job
from shared.telemetry import bounded

RULES: Final = (*SILENCE_RULES, *(rule.id for rule in PRESETS), "message")


class Incidents:
    """Writes incidents of jobs."""

    def __init__(self, bus: Bus, clock: Clock, registry: CollectorRegistry) -> None:
        self._bus = bus
        self._clock = clock
        self._log = structlog.get_logger(service="watchdog")
        self._raised = Counter(
            "trainmaster_watchdog_incidents", "Incidents raised, by rule.", ("rule",), registry=registry
        )

    async def put(self, job: Job, attempt: int, incident: IncidentRaised, part: str) -> None:
        """Put it on record, however long NATS is away; a repeat is the same event."""
        event = Event.of(
            incident,
            job=job.id,
            attempt=attempt,
            time=incident.at or self._clock.now(),
            owner=job.owner,
            project=job.project,
            part=part,
            traceparent=job.traceparent,
        )
        while True:
            try:
                await self._bus.observe(event)
            except BusUnavailableError as error:
                self._log.warning("incident_waits", job=job.id, reason=error.message)
                continue
            break
        self._raised.labels(
            bounded(incident.rule.split("/")[0] if _is_message(incident) else incident.rule, RULES)
        ).inc()
        self._log.info("incident_raised", job=job.id, attempt=attempt, rule=incident.rule, action=incident.action)


def _is_message(incident: IncidentRaised) -> bool:
    return incident.rule.startswith("message/")
