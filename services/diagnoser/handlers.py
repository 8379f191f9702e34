"""What the diagnoser does with a request: ask the agents, judge, tell.

The outcome is an observation with an id made of job and attempt, and an attempt that has one is not looked at again, so
a request that is delivered twice, also after a crash in the middle, gives one outcome. A job that no longer waits (it
was stopped, or its time was up) gets none.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Protocol

import structlog
from prometheus_client import CollectorRegistry, Counter

from services.diagnoser.domain.verdict import Floors, Reading, conclude, judge
from shared.bus import Bus
from shared.clock import Clock
from shared.events import DiagnosisFinished, DiagnosisRequested, Event, NodeFinding
from shared.jobs import Attempt, Job, JobState, Recorded
from shared.telemetry import current_traceparent


class Prober(Protocol):
    """Measures nodes."""

    async def probe(self, machine: str, nodes: list[str]) -> dict[str, Reading]:
        """Readings of the machine's nodes that answered in time."""
        ...


class Ledger(Protocol):
    """Remembers the health of nodes across jobs."""

    async def take(self, finding: NodeFinding, job: str, attempt: int, cluster: str) -> None:
        """Put on record what the finding says of its node, where that is news."""
        ...


class Diagnoses:
    """Handler of `diagnosis.requested`."""

    def __init__(
        self, bus: Bus, agents: Prober, ledger: Ledger, clock: Clock, floors: Floors, registry: CollectorRegistry
    ) -> None:
        self._bus = bus
        self._agents = agents
        self._ledger = ledger
        self._clock = clock
        self._floors = floors
        self._log = structlog.get_logger(service="diagnoser")
        self._finished = Counter(
            "trainmaster_diagnoser_diagnoses", "Diagnoses that were finished.", ("passed",), registry=registry
        )

    async def on_requested(self, recorded: Recorded) -> None:
        """Diagnose the nodes of the attempt, unless it does not wait for that."""
        request = recorded.event
        if not isinstance(request.data, DiagnosisRequested):
            return
        job = await self._waiting(request)
        if job is None:
            return
        outcome = await self._diagnose(request.data, job.attempt)
        if await self._waiting(request) is not None:
            await self._remember(job, outcome)
            await self._bus.observe(self._event(job, outcome, request))
            self._finished.labels(str(outcome.passed).lower()).inc()
            self._log.info("diagnosis_finished", passed=outcome.passed, bad_nodes=list(outcome.bad_nodes))

    async def _remember(self, job: Job, outcome: DiagnosisFinished) -> None:
        """Tell what this says of the nodes; before the outcome, since an attempt with one is not looked at again."""
        cluster = job.attempt.placement.cluster if job.attempt.placement else ""
        takes = (self._ledger.take(finding, job.id, job.attempt.number, cluster) for finding in outcome.findings)
        await asyncio.gather(*takes)

    async def _waiting(self, request: Event) -> Job | None:
        """The job, if the attempt that the request is about waits for its outcome."""
        job = await self._bus.load_job(request.subject)
        waits = job is not None and job.state is JobState.DIAGNOSING and job.attempt.number == request.attempt
        return job if job is not None and waits and job.attempt.diagnosis is None else None

    async def _diagnose(self, request: DiagnosisRequested, attempt: Attempt) -> DiagnosisFinished:
        nodes_of: defaultdict[str, list[str]] = defaultdict(list)
        for node in request.nodes:
            nodes_of[request.machines.get(node, node)].append(node)
        answers = await asyncio.gather(*(self._agents.probe(machine, nodes) for machine, nodes in nodes_of.items()))
        readings = {node: reading for answer in answers for node, reading in answer.items()}
        devices = _devices(attempt)
        findings = (judge(node, readings.get(node), devices.get(node, ()), self._floors) for node in request.nodes)
        return conclude(findings, request.names)

    def _event(self, job: Job, outcome: DiagnosisFinished, cause: Event) -> Event:
        return Event.of(
            outcome,
            job=job.id,
            attempt=job.attempt.number,
            time=self._clock.now(),
            owner=job.owner,
            project=job.project,
            causation=cause.message_id,
            traceparent=current_traceparent(),
        )


def _devices(attempt: Attempt) -> Mapping[str, list[str]]:
    """The GPUs that each node is to give to the attempt."""
    devices: defaultdict[str, list[str]] = defaultdict(list)
    for role in attempt.placement.roles if attempt.placement else ():
        for index in range(len(role.node_of)):
            devices[role.node(index)] += role.devices_of(index)
    return devices
