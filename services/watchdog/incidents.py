"""Putting incidents on record: an observation each, counted by rule."""

from __future__ import annotations

from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter

from services.watchdog.domain.rules import FailureClass
from services.watchdog.domain.silence import SILENCE_RULES
from services.watchdog.rulebooks import Rulebooks
from shared.bus import Bus, BusUnavailableError
from shared.clock import Clock
from shared.events import Event, IncidentRaised
from shared.jobs import Job
from shared.telemetry import bounded

_CLASSES: Final = ("", *FailureClass)
_OTHERS: Final = (*SILENCE_RULES, "message", "given-up")


class Incidents:
    """Writes incidents of jobs."""

    def __init__(self, bus: Bus, clock: Clock, registry: CollectorRegistry, rulebooks: Rulebooks) -> None:
        self._bus = bus
        self._clock = clock
        self._rulebooks = rulebooks
        self._log = structlog.get_logger(service="watchdog")
        self._raised = Counter(
            "trainmaster_watchdog_incidents",
            "Incidents raised, by rule, class of failure, and whether the rule is only being tried.",
            ("rule", "class", "mode"),
            registry=registry,
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
        failure_class = bounded(incident.failure_class or "", _CLASSES)
        self._raised.labels(self._label(incident.rule), failure_class, incident.mode).inc()
        self._log.info("incident_raised", job=job.id, attempt=attempt, rule=incident.rule, action=incident.action)

    def _label(self, rule: str) -> str:
        """Rules of the catalogue by their ids, users' messages as one."""
        kind = rule.split("/", maxsplit=1)[0] if rule.startswith(("message/", "given-up/")) else rule
        is_known = kind in self._rulebooks.catalogue.rules or kind in self._rulebooks.shadow
        return kind if is_known else bounded(kind, _OTHERS)
