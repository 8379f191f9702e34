"""A service whose whole work is to react to one durable consumer, such as the watchdog: bus, broker, health, HTTP.

`reacting_service` refuses to start where the consumer is missing or has another filter, because FastStream would make a
consumer of its own, or use the wrong one without a word.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, FastAPI
from faststream.nats import NatsBroker
from nats.errors import Error as NatsError
from prometheus_client import CollectorRegistry

from shared import checks
from shared.bus import Bus
from shared.bus.reactions import Handler, react, reactions_broker
from shared.bus.streams import Reaction
from shared.errors import TrainmasterError, UnavailableError
from shared.http.app import create_app
from shared.http.health import Check
from shared.http.routing import Authenticator
from shared.tasks import end
from shared.telemetry import Tracing

# Something that goes on for as long as the service runs.
Work = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Also:
    """One more consumer of the service, with its handler for at most so many events at a time."""

    reaction: Reaction
    handler: Handler
    workers: int


@dataclass(frozen=True, slots=True)
class ReactingService:
    """The running whole; see `shared.service.Service`."""

    name: str
    app: FastAPI
    bus: Bus
    broker: NatsBroker
    reacts: asyncio.Event
    works: Sequence[Work] = ()
    closing: Sequence[Work] = ()
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """React until `stop`; what is in hand is finished before the connections close."""
        working = [asyncio.create_task(work()) for work in self.works]
        stopping = asyncio.create_task(self.stopping.wait())
        try:
            await self.broker.start()
            self.reacts.set()
            ended, _ = await asyncio.wait([stopping, *working], return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            self.reacts.clear()
            # NATS may be gone already; what was not acknowledged comes again.
            with contextlib.suppress(NatsError, OSError):
                await self.broker.stop()
            for close in self.closing:
                await close()
            await end(stopping, *working)
            await self.bus.close()

    async def stop(self) -> None:
        """Let `run` end."""
        self.stopping.set()


async def reacting_service(
    *,
    name: str,
    title: str,
    bus: Bus,
    reaction: Reaction,
    handler: Handler,
    registry: CollectorRegistry | None = None,
    workers: int = 4,
    also: Sequence[Also] = (),
    stopping: asyncio.Event | None = None,
    works: Sequence[Work] = (),
    closing: Sequence[Work] = (),
    routers: Iterable[APIRouter] = (),
    auth: Authenticator | None = None,
    more_checks: Mapping[str, Check] | None = None,
) -> ReactingService:
    """Wire the handler to its consumer, at most `workers` events at a time.

    `also` has further consumers. `works` go on beside it, `closing` is done at the end. `stopping` is set when the
    service is to end, for handlers that would take long to end by themselves.

    Closes the bus and raises where JetStream or the consumer is not in order.
    """
    every = (Also(reaction, handler, workers), *also)
    consumers = {each.reaction.durable: checks.consumer(bus, each.reaction) for each in every}
    health = {"jetstream": checks.jetstream(bus), **consumers}
    try:
        for check in health.values():
            await check()
    except TrainmasterError:
        await bus.close()
        raise
    reacts = asyncio.Event()
    broker = reactions_broker(bus.options)
    for each in every:
        react(
            broker,
            each.reaction,
            each.handler,
            options=bus.options,
            service=name,
            tracing=Tracing(name),
            workers=each.workers,
        )
    app = create_app(
        service=name,
        title=title,
        routers=routers,
        auth=auth,
        checks={**health, **(more_checks or {}), "reacts": _whether(reacts)},
        registry=registry,
    )
    return ReactingService(name, app, bus, broker, reacts, works, closing, stopping or asyncio.Event())


def _whether(reacts: asyncio.Event) -> Check:
    async def check() -> str:
        if not reacts.is_set():
            raise UnavailableError("the service is not running yet, or not any more")
        return "running"

    return check
