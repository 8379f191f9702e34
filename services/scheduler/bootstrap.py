"""Wires the scheduler: bus, read model, catalog, engine, controller, meter, HTTP; its life from `run` to `stop`.

Read model, catalog and inventory are followed all the time, so that the API answers also while another scheduler
leads; the controller works only within a term of leadership. On `stop` the lease is given up, engine calls that are
under way are completed, and replicas run on.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from fastapi import FastAPI
from nats.errors import Error as NatsError
from prometheus_client import CollectorRegistry

from services.scheduler.api.clusters import clusters_router
from services.scheduler.api.documents import instance_types_router, pools_router
from services.scheduler.api.gang_code import gang_code_router
from services.scheduler.api.nodes import nodes_router
from services.scheduler.api.plans import plans_router
from services.scheduler.api.sandboxes import sandboxes_router
from services.scheduler.api.standings import queue_router
from services.scheduler.api.usage import usage_router
from services.scheduler.control.controller import Controller
from services.scheduler.control.inventory import InventoryKeeper
from services.scheduler.control.journal import Journal
from services.scheduler.control.leadership import Leadership
from services.scheduler.control.meter import Meter
from services.scheduler.control.node_registry import NodeRegistry
from services.scheduler.control.starter import GangStarter
from services.scheduler.control.troubles import Troubles
from services.scheduler.control.usage_book import UsageBook
from services.scheduler.control.world import World
from services.scheduler.domain.holdups import holdups_sentence
from services.scheduler.engines.clusters import ClusterEngines
from services.scheduler.engines.open_engines import OpenEngines
from services.scheduler.engines.opening import open_engines
from services.scheduler.handlers.nodes import NodeHandlers
from services.scheduler.handlers.offers import OfferHandlers
from services.scheduler.handlers.plans import PlanHandlers
from services.scheduler.handlers.sandboxes import SandboxHandlers
from services.scheduler.handlers.standings import StandingHandlers
from services.scheduler.handlers.usage import UsageHandlers
from services.scheduler.metrics import SchedulerMetrics
from services.scheduler.settings import SchedulerSettings
from services.scheduler.sources.code import CodeSource
from services.scheduler.sources.data import DataSource
from services.scheduler.sources.gang_code import GangCode
from services.scheduler.sources.git_command import Git
from services.scheduler.sources.job_secrets import JobSecrets
from services.scheduler.sources.repositories import Repositories
from shared import checks
from shared.admission.directories import LocalDirectories, UnseenDirectories
from shared.auth.authenticator import TokenAuthenticator
from shared.auth.revocations import KvRevocations
from shared.auth.tokens import TokenVerifier
from shared.bus import Bus, Fence
from shared.bus.blobs import Blobs
from shared.bus.reactions import react, reactions_broker
from shared.bus.streams import CODE_BUCKET, GANG_CODE_BUCKET, SCHEDULER_USAGE
from shared.catalog import CatalogStore, CatalogWatch
from shared.catalog.writer import CatalogWriter
from shared.clock import Clock, SystemClock
from shared.errors import UnavailableError
from shared.http.app import create_app
from shared.ids import GangId
from shared.jobs import Job, Recorded
from shared.readmodel import JobReadModel
from shared.tasks import end, run_together
from shared.telemetry import Tracing
from shared.vault import Vault

SWEEP_DATA_S: Final = 10.0
INVENTORY_S: Final = 10.0
"""How long clusters are waited for at the start where there are several."""


class SchedulerService:
    """The running whole; see `shared.service.Service`."""

    name = "scheduler"

    def __init__(self, settings: SchedulerSettings, bus: Bus, opened: OpenEngines, clock: Clock) -> None:
        self._settings = settings
        self._bus = bus
        self._engine = ClusterEngines(opened.engines, clock)
        self._close_engines = opened.close
        self._clock = clock
        self._stopping = asyncio.Event()
        self._clusters_asked = asyncio.Event()
        self._world = World()
        self._troubles = Troubles()
        self._jobs = JobReadModel(settings.readmodel_file, bus)
        self._book = UsageBook(settings.usage_file, bus)
        self._meter = Meter(bus, self._book, self._jobs, clock)
        self._catalog = CatalogWatch(bus)
        self._revocations = KvRevocations(bus.js, clock)
        self._leadership = Leadership(bus, clock, settings.identity)
        self._data = DataSource(settings.home / "scheduler" / "data", settings.s3(), clock)
        self._gang_code = GangCode(
            Blobs(bus.js, GANG_CODE_BUCKET), settings.keyring(), settings.home / "scheduler" / "gang-code"
        )
        self._starter = self._make_starter()
        self._registry = CollectorRegistry()
        self._metrics = SchedulerMetrics(self._registry)
        self._controller: Controller | None = None
        self._nodes = NodeRegistry(
            bus=bus,
            clusters=self._engine.clusters,
            world=self._world,
            clock=clock,
            metrics=self._metrics,
            cap_percent=settings.quarantine_max_percent,
            on_change=self._on_cluster_changed,
        )
        self._inventories = [self._inventory_of(cluster) for cluster in self._engine.clusters]
        self._jobs.on_event(self._on_event)
        self._catalog.on_change(self._on_catalog_changed)
        self.app = self._make_app()

    async def run(self) -> None:
        """Work until `stop`."""
        work = asyncio.create_task(self._work())
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([work, stopped], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            await end(work, stopped)
            self._jobs.close()
            self._book.close()
            await self._close_engines()
            await self._bus.close()

    async def stop(self) -> None:
        """Let `run` end."""
        self._stopping.set()

    async def _work(self) -> None:
        await run_together(
            self._jobs.run(),
            self._catalog.run(),
            self._revocations.run(),
            self._nodes.run(),
            *(inventory.run() for inventory in self._inventories),
            self._book.run(),
            self._meter_ends(),
            self._schedule(),
            self._sweep_data(),
        )

    async def _meter_ends(self) -> None:
        """Meter every attempt that ends, once what is on record is known."""
        await self._book.caught_up.wait()
        broker = reactions_broker(self._bus.options)
        react(
            broker,
            SCHEDULER_USAGE,
            self._meter.on_attempt_ended,
            options=self._bus.options,
            service=self.name,
            tracing=Tracing(self.name),
        )
        try:
            await broker.start()
            await asyncio.Event().wait()
        finally:
            # NATS may be gone already; what was not acknowledged comes again.
            with contextlib.suppress(NatsError, OSError):
                await broker.stop()

    async def _schedule(self) -> None:
        await self._know_inventories()
        self._clusters_asked.set()
        await self._nodes.caught_up.wait()
        await self._jobs.caught_up.wait()
        self._world.take_all(self._jobs.live())
        await self._leadership.run(self._lead)

    async def _know_inventories(self) -> None:
        """Ask every cluster what it has; of several, those that do not answer soon are not waited for."""
        if len(self._inventories) == 1:
            await self._inventories[0].refresh()
            return
        patience = asyncio.create_task(self._clock.sleep(INVENTORY_S))
        asking = asyncio.create_task(self._ask_inventories())
        try:
            await asyncio.wait({asking, patience}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(patience, asking)

    async def _ask_inventories(self) -> None:
        """Whatever fails is asked for again soon, see `InventoryKeeper.run`."""
        await asyncio.gather(*(inventory.refresh() for inventory in self._inventories), return_exceptions=True)

    def _inventory_of(self, cluster: str) -> InventoryKeeper:
        return InventoryKeeper(
            engine=self._engine.of(cluster),
            cluster=cluster,
            is_first=cluster == self._engine.clusters[0],
            catalog=self._catalog,
            store=CatalogStore(self._bus),
            clock=self._clock,
            registry=self._nodes,
        )

    async def _sweep_data(self) -> None:
        """Remove data of gangs that have ended and that the engine has let go of."""
        await self._jobs.caught_up.wait()
        while True:
            await self._data.sweep(self._is_over)
            await self._clock.sleep(SWEEP_DATA_S)

    def _is_over(self, gang: str) -> bool:
        job_id, _, number = gang.rpartition("-")
        job = self._jobs.get(job_id)
        over = job is None or job.ended or job.attempt.ended is not None or str(job.attempt.number) != number
        return over and not (self._settings.home / "gangs" / gang).exists()

    async def _lead(self, fence: Fence) -> None:
        """One term."""
        self._controller = Controller(
            bus=self._bus,
            journal=Journal(self._bus, fence),
            jobs=self._jobs,
            world=self._world,
            engine=self._engine,
            clusters=self._engine.clusters,
            starter=self._starter,
            clock=self._clock,
            metrics=self._metrics,
            troubles=self._troubles,
        )
        self._metrics.leader.set(1)
        try:
            await run_together(self._controller.run(), self._meter.run(), self._nodes.tell())
        finally:
            self._controller = None
            self._metrics.leader.set(0)

    def _on_event(self, before: Job | None, after: Job, recorded: Recorded) -> None:
        if not self._jobs.caught_up.is_set():
            return
        self._world.take(after)
        if self._controller is not None:
            self._controller.on_event(before, after, recorded)

    def _on_catalog_changed(self) -> None:
        self._world.set_pools(self._catalog.view)
        self._world.set_quotas(self._catalog.view)
        self._nodes.pools_changed()
        self._on_cluster_changed()

    def _on_cluster_changed(self) -> None:
        if self._controller is not None:
            self._controller.on_cluster_changed()

    def _make_starter(self) -> GangStarter:
        settings, own = self._settings, self._settings.home / "scheduler"
        secrets = JobSecrets(self._catalog, Vault(self._bus, settings.keyring()))
        repositories = Repositories(own / "git", Git(own / "git", settings.git_ca_file))
        blobs = Blobs(self._bus.js, CODE_BUCKET)
        code = CodeSource(self._bus, blobs, repositories, secrets, self._clock, own / "archives", self._gang_code)
        return GangStarter(self._engine, self._catalog, self._world.among, code, self._data, secrets)

    def _under_way(self, gang: str) -> str:
        """What is being done for a gang beside what its record says, and what keeps that from being done."""
        return ", ".join(filter(None, (self._data.progress(gang), self._trouble(gang))))

    def _trouble(self, gang: str) -> str:
        """Who leads knows of calls that failed, too; who stands by tells what the engine sees."""
        return self._troubles.told(gang) if self._controller else holdups_sentence(self._engine.holdups(GangId(gang)))

    def _make_app(self) -> FastAPI:
        writer = CatalogWriter(CatalogStore(self._bus), self._catalog)
        offers = OfferHandlers(self._catalog, writer, self._jobs, self._clock)
        standings = StandingHandlers(self._world, self._catalog, self._jobs, self._clock, self._under_way)
        nodes = NodeHandlers(self._world, self._nodes, self._catalog, self._jobs, self._bus)
        locations = self._settings.locations(self._settings.home)
        directories = LocalDirectories() if self._engine.lays_data else UnseenDirectories()
        plans = PlanHandlers(self._catalog, standings, locations, directories, self._clock)
        return create_app(
            service=self.name,
            title="Trainmaster scheduler",
            routers=[
                pools_router(offers, self._world),
                instance_types_router(offers),
                clusters_router(self._catalog, self._world),
                nodes_router(nodes),
                queue_router(standings),
                plans_router(plans),
                gang_code_router(self._gang_code),
                sandboxes_router(SandboxHandlers(self._engine, standings)),
                usage_router(UsageHandlers(self._book, self._jobs, self._catalog, self._bus, self._clock)),
            ],
            auth=TokenAuthenticator(TokenVerifier(self._settings.public_keys(), self._clock), self._revocations),
            checks={
                "jetstream": checks.jetstream(self._bus),
                "catalog": self._catalog.check,
                "revocations": self._revocations.check,
                "jobs": self._check_jobs,
                "clusters": self._check_clusters,
                SCHEDULER_USAGE.durable: checks.consumer(self._bus, SCHEDULER_USAGE),
            },
            registry=self._registry,
        )

    async def _check_jobs(self) -> str:
        if not self._jobs.caught_up.is_set():
            raise UnavailableError("past events are still being read")
        return f"sequence {self._jobs.sequence}, {'leads' if self._controller else 'stands by'}"

    async def _check_clusters(self) -> str:
        """Before that the default pool and instance types are not there yet, and every job waits for a node."""
        if not self._clusters_asked.is_set():
            raise UnavailableError("the clusters have not told yet which nodes they have")
        return ", ".join(self._engine.clusters)


async def bootstrap(settings: SchedulerSettings, clock: Clock | None = None) -> SchedulerService:
    """The scheduler over its engine, ready to run; raises UnavailableError where that or NATS is not there."""
    clock = clock or SystemClock()
    bus = await Bus.connect(settings.bus_options())
    return SchedulerService(settings, bus, await open_engines(settings, bus, clock), clock)
