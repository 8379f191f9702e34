"""Keeping the incident log, and noticing in it what jobs have in common.

Follows the record from where the log is, after it has read what is in the archive. An outage is put on record before
the incident that completes it is kept, so a watchdog that dies in between comes to the same outage again, with the same
id. Old incidents, as they are read while a log is built anew, make no outages: those that they made are on record. The
evidence of a deleted job goes with it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import aclosing
from datetime import timedelta
from functools import partial
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter

from services.watchdog.adapters.agents import Agents
from services.watchdog.adapters.incident_log import IncidentLog
from services.watchdog.domain import outages
from services.watchdog.domain.outages import WINDOW_S, Place, Sighting
from shared import events as ev
from shared.bus import Bus, BusUnavailableError, CaughtUp
from shared.bus.blobs import Blobs
from shared.bus.streams import ARCHIVE
from shared.clock import Clock
from shared.events import Event, IncidentRaised, OutageSuspected
from shared.jobs import Attempt, Job, Recorded
from shared.node_labels import LEAF_LABEL

PLATFORM: Final = "platform"
SUBJECT: Final = f"tm.platform.{OutageSuspected.SUFFIX}"
SUBJECTS: Final = (f"tm.job.*.obs.{IncidentRaised.SUFFIX}", f"tm.job.*.state.{ev.Deleted.SUFFIX}", SUBJECT)
_TROUBLE_PAUSE_S: Final = 1.0


class Recording:
    """Follows the stream into the log."""

    def __init__(
        self, bus: Bus, log: IncidentLog, agents: Agents, blobs: Blobs, clock: Clock, registry: CollectorRegistry
    ) -> None:
        self._bus = bus
        self._blobs = blobs
        self._kept = log
        self._agents = agents
        self._clock = clock
        self._log = structlog.get_logger(service="watchdog")
        self._suspected = Counter(
            "trainmaster_watchdog_outages", "Platform incidents, by what the jobs share.", ("place",), registry=registry
        )

    async def run(self) -> None:
        """Follow until cancelled."""
        _created, last_archived = await self._bus.stream_identity(ARCHIVE)
        self._kept.open(*await self._bus.stream_identity(), last_archived)
        await self._take_archived()
        async for item in self._bus.follow(after=self._kept.sequence, subjects=SUBJECTS):
            if isinstance(item, CaughtUp):
                # A job may have moved to the archive while it was looked for in the stream.
                await self._take_archived()
            else:
                await self._take_patiently(item)

    async def _take_archived(self) -> None:
        """Keep the incidents of what was archived by now, where the log does not have them."""
        async with aclosing(self._bus.follow_archive(after=self._kept.archived)) as following:
            async for batch in following:
                for item in batch:
                    if isinstance(item, CaughtUp):
                        return
                    await self._insist(partial(self._kept.put_archived, item.sequence, item.events))

    async def _insist(self, keep: Callable[[], None]) -> None:
        while True:
            try:
                return keep()
            except sqlite3.OperationalError as error:
                self._log.warning("incident_not_kept_yet", reason=str(error))
            await self._clock.sleep(_TROUBLE_PAUSE_S)

    async def _take_patiently(self, recorded: Recorded) -> None:
        while True:
            try:
                return await self._take(recorded)
            except (BusUnavailableError, sqlite3.OperationalError) as error:
                self._log.warning("incident_not_kept_yet", sequence=recorded.sequence, reason=str(error))
            await self._clock.sleep(_TROUBLE_PAUSE_S)

    async def _take(self, recorded: Recorded) -> None:
        match recorded.event.data:
            case IncidentRaised() as incident:
                await self._take_incident(recorded, incident)
            case OutageSuspected() as outage:
                self._kept.put_outage(recorded, outage)
            case ev.Deleted():
                await self._remove_evidence(recorded.event.subject)
                self._kept.forget(recorded)

    async def _remove_evidence(self, job_id: str) -> None:
        job = await self._bus.load_job(job_id)
        taken = (each for attempt in job.attempts for each in attempt.evidence) if job else ()
        for evidence in taken:
            if evidence.digest is not None:
                await self._blobs.remove(evidence.digest)

    async def _take_incident(self, recorded: Recorded, incident: IncidentRaised) -> None:
        places: tuple[Place, ...] = ()
        if outages.counts(incident) and self._is_fresh(recorded.event, incident):
            places = await self._places(recorded.event, incident)
            for outage, first in self._outages(recorded, incident, places):
                await self._tell(outage, first)
        self._kept.put(recorded, incident, places)

    def _is_fresh(self, event: Event, incident: IncidentRaised) -> bool:
        return self._clock.now() - (incident.at or event.time) <= timedelta(seconds=WINDOW_S)

    async def _places(self, event: Event, incident: IncidentRaised) -> tuple[Place, ...]:
        job = await self._bus.load_job(event.subject)
        attempt = next((each for each in job.attempts if each.number == event.attempt), None) if job else None
        if job is None or attempt is None:
            return ()
        return outages.places_of(job, attempt, incident, await self._leaves(job, attempt))

    async def _leaves(self, job: Job, attempt: Attempt) -> dict[str, str]:
        cluster = attempt.placement.cluster if attempt.placement else job.submitted.resolved.cluster
        nodes = {replica.node for replica in attempt.replicas.values() if replica.node}
        labels = {node: await self._agents.labels_of(cluster, node) for node in nodes}
        return {node: found[LEAF_LABEL] for node, found in labels.items() if LEAF_LABEL in found}

    def _outages(
        self, recorded: Recorded, incident: IncidentRaised, places: tuple[Place, ...]
    ) -> Iterator[tuple[OutageSuspected, int]]:
        now = incident.at or recorded.event.time
        here = Sighting(recorded.sequence, recorded.event.subject, now)
        for place in places:
            if not self._kept.has_open_outage(incident.rule, place, now):
                earlier = self._kept.sightings(incident.rule, place, now - timedelta(seconds=WINDOW_S))
                outage = outages.suspect(incident.rule, place, (*earlier, here), incident.line, now)
                if outage is not None:
                    yield outage

    async def _tell(self, outage: OutageSuspected, first: int) -> None:
        part = f"{outage.rule}/{outage.place_kind}/{outage.place}/{first}"
        event = Event.of(outage, job=PLATFORM, attempt=0, time=outage.at, owner="", project="", part=part)
        await self._bus.observe(event, subject=SUBJECT)
        self._suspected.labels(outage.place_kind).inc()
        self._log.warning(
            "outage_suspected", rule=outage.rule, place=outage.place, kind=outage.place_kind, jobs=len(outage.jobs)
        )
