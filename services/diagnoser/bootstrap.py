"""Wires the diagnoser: bus, ledger, the handler of requests on the consumer `diagnoser-requests`, health, metrics."""

from __future__ import annotations

import random
from typing import Final

from prometheus_client import CollectorRegistry

from services.diagnoser.adapters.agents import Agents
from services.diagnoser.adapters.ledger import HealthLedger
from services.diagnoser.handlers import Diagnoses
from services.diagnoser.procedure import Procedure
from services.diagnoser.settings import DiagnoserSettings
from shared.bus import Bus
from shared.bus.streams import DIAGNOSER_REQUESTS
from shared.clock import Clock, SystemClock
from shared.reacting import ReactingService, reacting_service

# A diagnosis is mostly waiting for an agent; others must not wait for it.
AT_ONCE: Final = 32


async def bootstrap(settings: DiagnoserSettings, clock: Clock | None = None) -> ReactingService:
    """The diagnoser, ready to run; raises UnavailableError where NATS or the consumer is not there."""
    clock = clock or SystemClock()
    bus = await Bus.connect(settings.bus_options())
    registry = CollectorRegistry()
    ledger = HealthLedger(bus, clock)
    agents = Agents(bus, clock, settings.probe_deadline_s)
    procedure = Procedure(agents, ledger.book, settings.floors, clock, random.random)
    return await reacting_service(
        name="diagnoser",
        title="Trainmaster diagnoser",
        bus=bus,
        reaction=DIAGNOSER_REQUESTS,
        handler=Diagnoses(bus, procedure, ledger, clock, registry).on_requested,
        registry=registry,
        workers=AT_ONCE,
        works=(ledger.run,),
    )
