"""Wires the diagnoser: bus, ledger, the handlers of jobs' requests, of checks and of first steps, health, metrics."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from prometheus_client import CollectorRegistry

from services.diagnoser.adapters.agents import Agents
from services.diagnoser.adapters.audience import Audience
from services.diagnoser.adapters.check_log import CheckLog
from services.diagnoser.adapters.holdings import JobHoldings
from services.diagnoser.adapters.leases import Leases
from services.diagnoser.adapters.ledger import HealthLedger
from services.diagnoser.adapters.ledger_file import LedgerFile
from services.diagnoser.adapters.profiles import CatalogProfiles
from services.diagnoser.api.diagnoses import diagnoses_router
from services.diagnoser.api.ledger import ledger_router
from services.diagnoser.background import BackgroundChecks
from services.diagnoser.burn_in import BurnIn
from services.diagnoser.check_runs import CheckRuns
from services.diagnoser.handlers import Diagnoses
from services.diagnoser.on_demand import OnDemand
from services.diagnoser.procedure import Procedure
from services.diagnoser.settings import DiagnoserSettings
from shared.auth.authenticator import TokenAuthenticator
from shared.auth.revocations import KvRevocations
from shared.auth.tokens import TokenVerifier
from shared.bus import Bus
from shared.bus.streams import DIAGNOSER_CHECKS, DIAGNOSER_REQUESTS, DIAGNOSER_STEPS
from shared.catalog import CatalogWatch
from shared.clock import Clock, SystemClock
from shared.reacting import Also, ReactingService, reacting_service
from shared.readmodel import JobReadModel

# A diagnosis is mostly waiting for an agent; others must not wait for it.
AT_ONCE: Final = 32
CHECKS_AT_ONCE: Final = 4
BURN_INS_AT_ONCE: Final = 4


async def bootstrap(settings: DiagnoserSettings, clock: Clock | None = None) -> ReactingService:
    """The diagnoser, ready to run; raises UnavailableError where NATS or the consumer is not there."""
    clock = clock or SystemClock()
    keys = settings.public_keys()
    bus = await Bus.connect(settings.bus_options())
    registry = CollectorRegistry()
    ledger = HealthLedger(bus, clock, LedgerFile(settings.ledger_file))
    jobs = JobReadModel(settings.readmodel_file, bus)
    holdings = JobHoldings(jobs)
    log, leaving = CheckLog(bus, clock), asyncio.Event()
    agents = Agents(bus, clock, settings.probe_deadline_s)
    procedure = Procedure(agents, ledger.book, settings.floors, clock, random.random, settings.probe_deadline_s)
    profiles = CatalogProfiles(CatalogWatch(bus))
    on_demand = OnDemand(procedure, ledger, log, holdings, profiles, Audience(bus), clock)
    leases = Leases(bus, clock)
    runs = CheckRuns(procedure, ledger, log, leases, holdings, profiles, clock, leaving)
    background = BackgroundChecks(on_demand, ledger, holdings, settings.schedule, clock)
    revocations = KvRevocations(bus.js, clock)
    return await reacting_service(
        name="diagnoser",
        title="Trainmaster diagnoser",
        bus=bus,
        reaction=DIAGNOSER_REQUESTS,
        handler=Diagnoses(bus, procedure, ledger, holdings, profiles, leases, clock, registry, leaving).on_requested,
        also=(
            Also(DIAGNOSER_CHECKS, runs.on_requested, CHECKS_AT_ONCE),
            Also(DIAGNOSER_STEPS, BurnIn(bus, ledger, clock).on_measured, BURN_INS_AT_ONCE),
        ),
        registry=registry,
        workers=AT_ONCE,
        works=(ledger.run, log.run, jobs.run, revocations.run, background.run),
        routers=[ledger_router(on_demand), diagnoses_router(on_demand)],
        auth=TokenAuthenticator(TokenVerifier(keys, clock), revocations),
        more_checks={"revocations": revocations.check},
        stopping=leaving,
    )
