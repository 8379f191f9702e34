"""Wires the watchdog: bus, the handler of ended attempts on the consumer `watchdog-attempts`, health and metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from services.watchdog.handlers import RetryDecisions
from services.watchdog.settings import WatchdogSettings
from shared.bus import Bus
from shared.bus.streams import WATCHDOG_ATTEMPTS
from shared.clock import Clock, SystemClock
from shared.reacting import ReactingService, reacting_service


async def bootstrap(settings: WatchdogSettings, clock: Clock | None = None) -> ReactingService:
    """The watchdog, ready to run; raises UnavailableError where NATS or the consumer is not there."""
    bus = await Bus.connect(settings.bus_options())
    registry = CollectorRegistry()
    decisions = RetryDecisions(bus, clock or SystemClock(), registry)
    return await reacting_service(
        name="watchdog",
        title="Trainmaster watchdog",
        bus=bus,
        reaction=WATCHDOG_ATTEMPTS,
        handler=decisions.on_attempt_ended,
        registry=registry,
    )
