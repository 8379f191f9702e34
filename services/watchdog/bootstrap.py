"""Wires the watchdog: bus, read model, memory, a scanner a partition, hang detector, decisions, health and metrics."""

from __future__ import annotations

import asyncio
import contextlib

from fastapi import FastAPI
from faststream.nats import NatsBroker
from nats.errors import Error as NatsError
from prometheus_client import CollectorRegistry

from services.watchdog.adapters.agents import Agents
from services.watchdog.adapters.memory import Memory
from services.watchdog.bundles import Bundles
from services.watchdog.catalogue import built_in_rules, preset_rows
from services.watchdog.desk import Desk
from services.watchdog.domain.clocks import Clocks
from services.watchdog.evidence import Evidence
from services.watchdog.handlers import RetryDecisions
from services.watchdog.hangs import HangDetector
from services.watchdog.incidents import Incidents
from services.watchdog.log_path import LogPath
from services.watchdog.rulebooks import Rulebooks
from services.watchdog.scanning import PartitionScanner, Reading
from services.watchdog.settings import WatchdogSettings
from services.watchdog.watched import WatchedJobs
from shared import checks
from shared.auth.keys import KeySet
from shared.bus import Bus
from shared.bus.blobs import Blobs
from shared.bus.reactions import react, reactions_broker
from shared.bus.streams import EVIDENCE_BUCKET, WATCHDOG_ATTEMPTS, watchdog_partition
from shared.clock import Clock, SystemClock
from shared.errors import TrainmasterError, UnavailableError
from shared.http.app import create_app
from shared.http.health import Check
from shared.logs_wire import LOG_PARTITIONS
from shared.readmodel import JobReadModel
from shared.tasks import end, run_together
from shared.telemetry import Tracing

# A decision may wait for the end of logs; others must not wait for it.
_DECISIONS_AT_ONCE = 64


class WatchdogService:
    """The running whole; see `shared.service.Service`."""

    name = "watchdog"

    def __init__(self, settings: WatchdogSettings, keys: KeySet, bus: Bus, clock: Clock) -> None:
        registry = CollectorRegistry()
        self.bus = bus
        self._stopping = asyncio.Event()
        self._jobs = JobReadModel(settings.readmodel_file, bus)
        self._memory = Memory(settings.memory_file)
        self._watched = WatchedJobs(bus, self._jobs, self._memory)
        rulebooks = Rulebooks(built_in_rules(), preset_rows())
        incidents = Incidents(bus, clock, registry, rulebooks)
        logs = Reading(self._watched, rulebooks, self._memory, incidents, Clocks())
        self._scanners = tuple(
            PartitionScanner(bus, watchdog_partition(number), logs, clock) for number in range(LOG_PARTITIONS)
        )
        blobs = Blobs(bus.js, EVIDENCE_BUCKET)
        agents = Agents(bus)
        self._bundles = Bundles(bus, agents, blobs, self._memory, clock, registry)
        self._hangs = HangDetector(
            self._watched, self._memory, incidents, clock, self._scanners, self._hears, self._bundles
        )
        self._path = LogPath(bus, self._scanners, clock)
        evidence = Evidence(self._path, self._scanners, self._memory, clock)
        self._decisions = RetryDecisions(bus, clock, registry, evidence, rulebooks)
        self._broker = _attempts_broker(bus, self._decisions)
        self._desk = Desk(settings, keys, bus, self._jobs, agents, blobs, rulebooks, clock, registry)
        self.reacts = asyncio.Event()
        self.app: FastAPI = create_app(
            service=self.name,
            title="Trainmaster watchdog",
            routers=self._desk.routers(),
            auth=self._desk.auth,
            checks=self.checks() | self._desk.checks(),
            registry=registry,
        )

    async def run(self) -> None:
        """Read, listen and decide until `stop`; what is in hand is finished before the connections close."""
        work = asyncio.create_task(self._work())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([work, stopping], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            self.reacts.clear()
            # NATS may be gone already; what was not acknowledged comes again.
            with contextlib.suppress(NatsError, OSError):
                await self._broker.stop()
            await end(work, stopping)
            await self._bundles.stop()
            self._jobs.close()
            self._memory.close()
            self._desk.close()
            await self.bus.close()

    async def stop(self) -> None:
        """Let `run` end."""
        self._stopping.set()

    def checks(self) -> dict[str, Check]:
        """What must be in order for the watchdog to be ready."""
        consumers = (WATCHDOG_ATTEMPTS, *(watchdog_partition(number) for number in range(LOG_PARTITIONS)))
        return {
            "jetstream": checks.jetstream(self.bus),
            **{each.durable: checks.consumer(self.bus, each) for each in consumers},
            "reacts": self._check_reacts,
        }

    async def _work(self) -> None:
        await run_together(self._jobs.run(), self._react(), *self._desk.works())

    async def _react(self) -> None:
        await self._jobs.caught_up.wait()
        self._watched.begin()
        await self._path.note_connection()
        await self._broker.start()
        self.reacts.set()
        scanning = [scanner.run() for scanner in self._scanners]
        backlogs = [scanner.watch_backlog() for scanner in self._scanners]
        taking_over = self._decisions.take_over(list(self._jobs.live()))
        await run_together(*scanning, *backlogs, taking_over, self._hangs.run())

    def _hears(self) -> bool:
        """Whether what replicas write reaches this service."""
        return self.bus.client.is_connected and all(scanner.caught_up for scanner in self._scanners)

    async def _check_reacts(self) -> str:
        if not self.reacts.is_set():
            raise UnavailableError("the service is not running yet, or not any more")
        return "running"


async def bootstrap(settings: WatchdogSettings, clock: Clock | None = None) -> WatchdogService:
    """The watchdog, ready to run; raises UnavailableError where NATS or a consumer is not there or is another."""
    keys = settings.public_keys()
    bus = await Bus.connect(settings.bus_options())
    service = WatchdogService(settings, keys, bus, clock or SystemClock())
    try:
        for name, check in service.checks().items():
            if name != "reacts":
                await check()
    except TrainmasterError:
        await bus.close()
        raise
    return service


def _attempts_broker(bus: Bus, decisions: RetryDecisions) -> NatsBroker:
    broker = reactions_broker(bus.options)
    react(
        broker,
        WATCHDOG_ATTEMPTS,
        decisions.on_attempt_ended,
        options=bus.options,
        service="watchdog",
        tracing=Tracing("watchdog"),
        workers=_DECISIONS_AT_ONCE,
    )
    return broker
