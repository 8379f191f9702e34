"""What the diagnoser does with a request: run the procedure, put on record what it found, tell.

The outcome is an observation with an id made of job and attempt, and an attempt that has one is not looked at again, so
a request that is delivered twice, also after a crash in the middle, gives one outcome. A job that no longer waits (it
was stopped, or its time was up) gets none: the tests are cancelled, and their workers ended, as soon as that is heard.
Several instances may run; whatever one of them has in hand when it ends or dies is delivered to another. A lease of the
round keeps two from measuring at once, where one of them was only cut off from NATS for a while.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter

from services.diagnoser.adapters.holdings import JobHoldings
from services.diagnoser.adapters.leases import Leases
from services.diagnoser.adapters.ledger import HealthLedger
from services.diagnoser.adapters.profiles import CatalogProfiles
from services.diagnoser.asking import Subject
from services.diagnoser.domain.budget import budget_s
from services.diagnoser.domain.profiles import profiles_of
from services.diagnoser.domain.reports import Occasion, diagnosis_id, part_of
from services.diagnoser.domain.stages import Profile
from services.diagnoser.domain.verdict import conclude
from services.diagnoser.domain.waiting import waits_for
from services.diagnoser.interrupting import CutShortError, unless
from services.diagnoser.procedure import NotWantedError, Procedure
from shared.bus import Bus
from shared.clock import Clock
from shared.errors import UnavailableError
from shared.events import DiagnosisFinished, DiagnosisRequested, Event
from shared.jobs import Attempt, Job, Recorded
from shared.telemetry import current_traceparent

_FILE: Final = "file://"
_RUN_BYTES: Final = 4


class Diagnoses:
    """Handler of `diagnosis.requested`."""

    def __init__(
        self,
        bus: Bus,
        procedure: Procedure,
        ledger: HealthLedger,
        holdings: JobHoldings,
        profiles: CatalogProfiles,
        leases: Leases,
        clock: Clock,
        registry: CollectorRegistry,
        leaving: asyncio.Event,
    ) -> None:
        self._bus = bus
        self._procedure = procedure
        self._ledger = ledger
        self._holdings = holdings
        self._profiles = profiles
        self._leases = leases
        self._instance = f"instance {secrets.token_hex(_RUN_BYTES)}"
        self._clock = clock
        self._leaving = leaving
        self._log = structlog.get_logger(service="diagnoser")
        self._finished = Counter(
            "trainmaster_diagnoser_diagnoses", "Diagnoses that were finished.", ("passed",), registry=registry
        )

    async def on_requested(self, recorded: Recorded) -> None:
        """Diagnose the nodes of the attempt, unless it does not wait for that."""
        request = recorded.event
        if not isinstance(request.data, DiagnosisRequested):
            return
        await self._ledger.caught_up.wait()
        job = await self._waiting(request)
        if job is None:
            return
        try:
            outcome = await self._diagnose(request, request.data, job)
        except NotWantedError:
            self._log.info("diagnosis_not_wanted")
            return
        except CutShortError as cut:
            if cut.by in {"leaving", "lost"}:
                raise UnavailableError("another instance, or the next one, takes the diagnosis up") from cut
            self._log.info("diagnosis_not_wanted")
            return
        await self._bus.observe(self._event(job, outcome, request))
        self._finished.labels(str(outcome.passed).lower()).inc()
        self._log.info("diagnosis_finished", passed=outcome.passed, bad_nodes=list(outcome.bad_nodes))

    async def _diagnose(self, event: Event, request: DiagnosisRequested, job: Job) -> DiagnosisFinished:
        """The outcome, after what it says of the nodes is on record: an attempt with one is not looked at again."""

        async def still_wanted() -> bool:
            return await self._waiting(event) is not None

        began, attempt = self._clock.now(), job.attempt
        await self._holdings.reached(job.sequence)
        profiles = profiles_of(job, await self._profiles.of_types())
        subject = _subject(request, job, self._holdings.held(but=job.id), profiles)
        before = self._ledger.book.known(request.nodes, began)
        self._log.info("diagnosis_begun", nodes=len(subject.nodes), budget_s=budget_s(self._procedure.plan(subject)))
        name = diagnosis_id(job.id, attempt.number, request.round)
        async with self._leases.held((name,), self._instance) as lost:
            waits = {"job": self._holdings.moved_on(event), "leaving": self._leaving.wait(), "lost": lost.wait()}
            examination = await unless(waits, self._procedure.run(subject, still_wanted))
        if not await still_wanted():
            raise NotWantedError
        findings = [examination.finding(node) for node in request.nodes]
        cluster = attempt.placement.cluster if attempt.placement else ""
        occasion = Occasion(name, cluster, began, request.names, job.id, attempt.number)
        now, count = self._clock.now(), len(findings)
        await asyncio.gather(
            *(
                self._ledger.take(each, part_of(examination, each, occasion, before, node_count=count, now=now))
                for each in findings
            )
        )
        return conclude(findings, request.names).model_copy(update={"round": request.round})

    async def _waiting(self, request: Event) -> Job | None:
        """The job, if the attempt that the request is about waits for its outcome."""
        job = await self._bus.load_job(request.subject)
        return job if job is not None and waits_for(job, request) else None

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


def _subject(request: DiagnosisRequested, job: Job, held: frozenset[str], profiles: Mapping[str, Profile]) -> Subject:
    """What the attempt wants to know: of its nodes, their devices, and directories that its replicas mount."""
    places = {
        mount.uri.removeprefix(_FILE): not mount.read_only
        for mount in job.submitted.resolved.mounts
        if mount.uri.startswith(f"{_FILE}/")
    }
    return Subject(
        session=f"{diagnosis_id(job.id, job.attempt.number, request.round)}-{secrets.token_hex(_RUN_BYTES)}",
        nodes=request.nodes,
        machines=request.machines,
        names=request.names,
        devices=_devices(job.attempt),
        places=places,
        in_use=held & frozenset(request.nodes),
        profiles=profiles,
        settled=frozenset(request.nodes) - frozenset(request.only) if request.only else frozenset(),
    )
