"""Wires the diagnoser: bus, the handler of requests on the consumer `diagnoser-requests`, health and metrics."""

from __future__ import annotations

from services.diagnoser.handlers import on_diagnosis_requested
from services.diagnoser.settings import DiagnoserSettings
from shared.bus import Bus
from shared.bus.streams import DIAGNOSER_REQUESTS
from shared.reacting import ReactingService, reacting_service


async def bootstrap(settings: DiagnoserSettings) -> ReactingService:
    """The diagnoser, ready to run; raises UnavailableError where NATS or the consumer is not there."""
    return await reacting_service(
        name="diagnoser",
        title="Trainmaster diagnoser",
        bus=await Bus.connect(settings.bus_options()),
        reaction=DIAGNOSER_REQUESTS,
        handler=on_diagnosis_requested,
    )
