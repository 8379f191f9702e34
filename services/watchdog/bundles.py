"""Taking evidence of silent attempts, before anything of them is ended.

Every incident of a silence wants evidence for `TAKE_WITHIN_S` seconds, whatever has become of it since: the hang
detector calls `see_to` in every look, so a watchdog that was killed in between takes it when it is back. The scheduler
ends a hung attempt when the evidence is on record, or when that time is over. One bundle is taken at a time of one
incident, a few at a time of all jobs together.
"""

from __future__ import annotations

import asyncio
import io
from datetime import datetime, timedelta
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter

from services.watchdog.adapters.agents import Agents
from services.watchdog.adapters.memory import Memory
from services.watchdog.domain.bundle import Looked, bundle_of, told_of
from services.watchdog.domain.matching import last_lines
from services.watchdog.domain.silence import SILENCE_RULES
from shared.agent_evidence import MachineLook, StacksRequest
from shared.bus import Bus, BusError
from shared.bus.blobs import Blobs
from shared.clock import Clock
from shared.events import Event, EvidenceCollected, IncidentRaised
from shared.jobs import Job, evidence_of, replica_key
from shared.logs_wire import ReplicaRef
from shared.tasks import end

TAKE_WITHIN_S: Final = 60.0
AT_ONCE: Final = 8

_Key = tuple[str, int, str, datetime]


class Bundles:
    """Takes evidence, each of it once."""

    def __init__(
        self, bus: Bus, agents: Agents, blobs: Blobs, memory: Memory, clock: Clock, registry: CollectorRegistry
    ) -> None:
        self._bus = bus
        self._agents = agents
        self._blobs = blobs
        self._memory = memory
        self._clock = clock
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._taking: dict[_Key, asyncio.Task[None]] = {}
        self._log = structlog.get_logger(service="watchdog")
        self._taken = Counter(
            "trainmaster_watchdog_evidence",
            "Bundles of evidence, by whether all of the job's machines are in it, and whether it was kept.",
            ("result",),
            registry=registry,
        )

    def see_to(self, job: Job) -> None:
        """Begin to take what the job's present attempt lacks."""
        for incident in job.attempt.incidents:
            if incident.rule in SILENCE_RULES and incident.at is not None:
                self._begin(job, incident, incident.at)

    async def stop(self) -> None:
        """Leave what is in hand; it is taken up again after a start, where there is time."""
        await end(*self._taking.values())

    def _begin(self, job: Job, incident: IncidentRaised, noticed_at: datetime) -> None:
        key = (job.id, job.attempt.number, incident.rule, noticed_at)
        is_due = self._clock.now() < noticed_at + timedelta(seconds=TAKE_WITHIN_S)
        if key in self._taking or not is_due or evidence_of(job.attempt, incident.rule, noticed_at) is not None:
            return
        task = asyncio.create_task(self._take(job, incident))
        self._taking[key] = task
        task.add_done_callback(lambda _: self._taking.pop(key, None))

    async def _take(self, job: Job, incident: IncidentRaised) -> None:
        try:
            async with self._turns:
                looked = await self._look(job)
                await self._keep(job, incident, looked)
        except BusError as error:
            # The next look of the hang detector tries again.
            self._log.warning("evidence_waits", job=job.id, reason=error.message)
        except Exception:  # noqa: BLE001  # what one job holds must not end the watchdog
            self._log.exception("evidence_not_taken", job=job.id)

    async def _look(self, job: Job) -> Looked:
        placement = job.attempt.placement
        nodes = {replica.node for replica in job.attempt.replicas.values()}
        machine_of = await self._agents.machines_of(placement.cluster if placement else "", nodes)
        request = StacksRequest(job.id, job.attempt.number)
        machines = sorted(set(machine_of.values()))
        looks = await asyncio.gather(*(self._agents.look(machine, request) for machine in machines))
        return Looked(machine_of, dict(zip(machines, looks, strict=True)), self._last_lines(job))

    def _last_lines(self, job: Job) -> dict[str, tuple[str, ...]]:
        return {
            replica_key(each.role, each.index): self._lines_of(
                ReplicaRef(job.id, job.attempt.number, each.role, each.index)
            )
            for each in job.attempt.replicas.values()
        }

    def _lines_of(self, replica: ReplicaRef) -> tuple[str, ...]:
        return last_lines(self._memory.scan(replica))

    async def _keep(self, job: Job, incident: IncidentRaised, looked: Looked) -> None:
        bundle = bundle_of(job, incident, looked, self._clock.now())
        body = bundle.model_dump_json(by_alias=True).encode()
        digest = await self._blobs.put(io.BytesIO(body))
        await self._bus.observe(self._event(job, told_of(bundle, digest, len(body))))
        whole = all(isinstance(look, MachineLook) and not look.problems for look in looked.looks.values())
        self._taken.labels("kept" if whole else "partly").inc()
        self._log.info("evidence_taken", job=job.id, rule=incident.rule, summary=bundle.summary, digest=digest)

    def _event(self, job: Job, taken: EvidenceCollected) -> Event:
        return Event.of(
            taken,
            job=job.id,
            attempt=job.attempt.number,
            time=taken.at,
            owner=job.owner,
            project=job.project,
            part=f"{taken.rule}/{int(taken.noticed_at.timestamp() * 1000)}",
            traceparent=job.traceparent,
        )
