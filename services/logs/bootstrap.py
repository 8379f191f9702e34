"""Wires the logs service: bus, store, one ingest task a partition, HTTP; and its life from `run` to `stop`."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Coroutine
from typing import Any

from fastapi import FastAPI
from faststream.nats import NatsBroker
from nats.errors import Error as NatsError
from prometheus_client import CollectorRegistry

from services.logs.adapters.jobs import BusJobs
from services.logs.adapters.members import Members
from services.logs.adapters.store import LogStore
from services.logs.adapters.visible_jobs import ReadModelJobs
from services.logs.api.logs import logs_router
from services.logs.api.resources import ResourceHandlers, resources_router
from services.logs.api.scalars import scalars_router
from services.logs.api.search import search_router
from services.logs.api.tensorboard import board_pages_router, boards_router
from services.logs.first_steps import FirstSteps
from services.logs.handlers import LogHandlers
from services.logs.holding import Holding
from services.logs.ingest import Ingest
from services.logs.metrics import IngestMetrics
from services.logs.mirroring import Mirroring
from services.logs.progress import ProgressWatch
from services.logs.resources import ResourceReader
from services.logs.scalar_handlers import ScalarHandlers
from services.logs.scalars import ScalarReader
from services.logs.search import SearchHandlers
from services.logs.settings import LogsSettings
from services.logs.tensorboard.handlers import BoardHandlers
from services.logs.tensorboard.objects import ObjectRecords
from services.logs.tensorboard.sandbox import find_sandbox
from services.logs.tensorboard.servers import Boards, Limits
from services.logs.tensorboard.sessions import Sessions
from services.logs.tidying import Tidying
from shared import checks
from shared.auth.authenticator import TokenAuthenticator
from shared.auth.keys import KeySet
from shared.auth.revocations import KvRevocations
from shared.auth.tokens import TokenVerifier
from shared.bus import Bus
from shared.bus.reactions import react, reactions_broker
from shared.bus.streams import LOGS_DELETIONS, logs_partition
from shared.catalog import CatalogWatch
from shared.clock import Clock, SystemClock
from shared.errors import TrainmasterError, UnavailableError
from shared.http.app import create_app
from shared.http.health import Check
from shared.jobs import Recorded
from shared.logs_wire import LOG_PARTITIONS
from shared.readmodel import JobReadModel
from shared.tasks import run_until
from shared.telemetry import Tracing


class LogsService:
    """The running whole; see `shared.service.Service`."""

    name = "logs"

    def __init__(self, settings: LogsSettings, bus: Bus, keys: KeySet, clock: Clock) -> None:
        registry = CollectorRegistry()
        self._bus = bus
        self._stopping = asyncio.Event()
        self._store = LogStore(settings.directory, settings.archive())
        self._revocations = KvRevocations(bus.js, clock)
        metrics = IngestMetrics(registry)
        self._holding = Holding(
            self._store,
            Members(settings.directory / "instances", settings.instance),
            lambda partition: Ingest(bus, logs_partition(partition.number), partition, metrics).run(),
            archive_name=settings.log_archive,
        )
        jobs = BusJobs(bus)
        self._known_jobs = JobReadModel(settings.own_directory / "jobs.sqlite", bus)
        visible_jobs = ReadModelJobs(self._known_jobs, CatalogWatch(bus))
        self._tidying = Tidying(self._store, self._known_jobs, bus, settings.limits(), clock)
        self._mirroring = Mirroring(self._store, self._known_jobs, clock)
        search = SearchHandlers(self._store, jobs, visible_jobs, clock)
        handlers = LogHandlers(self._store, jobs, clock)
        reader = ScalarReader(self._store.layout)
        scalars = ScalarHandlers(jobs, reader, self._store.bells)
        self._progress = ProgressWatch(self._store, reader, bus, clock)
        self._first_steps = FirstSteps(self._store, bus, clock)
        auth = TokenAuthenticator(TokenVerifier(keys, clock), self._revocations)
        limits = Limits(settings.tensorboard_max, settings.tensorboard_idle_s)
        self._boards = Boards(settings.own_directory / "tensorboard", find_sandbox, limits, clock)
        sessions = Sessions(lambda: secrets.token_urlsafe(32))
        objects = ObjectRecords(settings.own_directory / "records", settings.open_bucket(), clock)
        layout = self._store.layout
        boards = BoardHandlers(self._boards, sessions, jobs, layout, objects, auth, clock, settings.home)
        self._broker = _deletions_broker(bus, handlers, boards)
        self.app: FastAPI = create_app(
            service=self.name,
            title="Trainmaster logs",
            routers=[
                logs_router(handlers),
                search_router(search),
                scalars_router(scalars),
                resources_router(ResourceHandlers(jobs, ResourceReader(self._store.layout))),
                boards_router(boards),
                board_pages_router(boards),
            ],
            auth=auth,
            checks=self._checks(),
            registry=registry,
        )

    async def run(self) -> None:
        """Take chunks and answer until `stop`; a batch in hand is finished."""
        try:
            await self._broker.start()
            await run_until(self._stopping, *self._works())
        finally:
            # NATS may be gone already; what was not acknowledged comes again.
            with contextlib.suppress(NatsError, OSError):
                await self._broker.stop()
            await self._bus.close()
            self._known_jobs.close()

    async def stop(self) -> None:
        """Let `run` end."""
        self._stopping.set()

    def _works(self) -> list[Coroutine[Any, Any, None]]:
        return [
            self._holding.run(),
            self._store.watch(),
            self._store.compactor.run(),
            self._known_jobs.run(),
            self._tidying.run(),
            self._mirroring.run(),
            self._revocations.run(),
            self._boards.run(),
            self._progress.run(),
            self._first_steps.run(),
        ]

    def _checks(self) -> dict[str, Check]:
        consumers = [logs_partition(number) for number in range(LOG_PARTITIONS)]
        return {
            "jetstream": checks.jetstream(self._bus),
            "revocations": self._revocations.check,
            "recovered": self._whether_recovered,
            **{each.durable: checks.consumer(self._bus, each) for each in (LOGS_DELETIONS, *consumers)},
        }

    async def _whether_recovered(self) -> str:
        held = list(self._store.held.values())
        behind = sum(not partition.recovered.is_set() for partition in held)
        if behind or not self._holding.has_share:
            raise UnavailableError(f"{behind} of {len(held)} partitions are still reading their write-ahead logs")
        beside = f" beside {', '.join(self._holding.others)}" if self._holding.others else ""
        return f"{len(held)} partitions{beside}"


async def bootstrap(settings: LogsSettings, clock: Clock | None = None) -> LogsService:
    """The logs service, ready to run; raises UnavailableError where NATS or a consumer is not there."""
    keys = settings.public_keys()
    bus = await Bus.connect(settings.bus_options())
    try:
        return LogsService(settings, bus, keys, clock or SystemClock())
    except TrainmasterError:
        await bus.close()
        raise


def _deletions_broker(bus: Bus, handlers: LogHandlers, boards: BoardHandlers) -> NatsBroker:
    broker = reactions_broker(bus.options)
    tracing = Tracing("logs")

    async def on_deleted(recorded: Recorded) -> None:
        await boards.on_deleted(recorded)
        await handlers.on_deleted(recorded)

    react(broker, LOGS_DELETIONS, on_deleted, options=bus.options, service="logs", tracing=tracing)
    return broker
