"""Reactions: a durable consumer's events, handed to a handler one by one through FastStream.

`react` registers a handler for a `Reaction`. The handler gets the recorded event, with the log context and the trace of
the event around it. What it does must be idempotent: a message is acknowledged only after the handler returned.

While the handler works the server hears so every few seconds: a message is delivered again soon after its service died,
and never while it is merely slow.

- returns: acknowledged;
- raises BusUnavailableError: delivered again after a pause, for as long as it takes;
- raises UnhandleableError, or the body is no event: kept as a dead letter;
- raises anything else: delivered again with growing pauses, after `Redelivery.max_deliveries` kept as a dead letter.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import structlog
from faststream import AckPolicy
from faststream.nats import JStream, NatsBroker, NatsMessage, PullSub
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from shared.bus.connection import BusOptions
from shared.bus.deadletters import DeadLetter, UnhandleableError, bury
from shared.bus.errors import BusUnavailableError
from shared.bus.streams import Reaction
from shared.errors import UnavailableError
from shared.events import EventError, decode
from shared.jobs import Recorded
from shared.nats_servers import servers, trust
from shared.tasks import end
from shared.telemetry import Tracing

_RECONNECT_WAIT_S: Final = 0.25

Handler = Callable[[Recorded], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Redelivery:
    """How often a failing message is tried before it is buried, and the pauses between, which double each time."""

    max_deliveries: int = 8
    first_pause_s: float = 0.25
    max_pause_s: float = 30.0

    def pause_s(self, deliveries: int) -> float:
        """How long to wait after so many deliveries."""
        return float(min(self.max_pause_s, self.first_pause_s * 2 ** min(deliveries, 10)))


def reactions_broker(options: BusOptions) -> NatsBroker:
    """A FastStream broker that connects as the user of the options; the service starts and stops it."""
    return NatsBroker(
        servers(options.url),
        name=f"{options.user}-reactions",
        inbox_prefix=options.inbox_prefix,
        reconnect_time_wait=_RECONNECT_WAIT_S,  # type: ignore[arg-type]  # a float sleeps as well
        max_reconnect_attempts=-1,
        logger=logging.getLogger("faststream.reactions"),
        log_level=logging.DEBUG,
        ack_policy=AckPolicy.MANUAL,
        apply_types=False,
        **_security(options),
    )


def _security(options: BusOptions) -> dict[str, Any]:
    from faststream.security import SASLPlaintext  # noqa: PLC0415  # only brokers with a password need it

    if not options.password:
        return {}
    tls = trust(options.ca_file)
    security = SASLPlaintext(username=options.user, password=options.password, ssl_context=tls, use_ssl=tls is not None)
    return {"security": security}


def react(
    broker: NatsBroker,
    reaction: Reaction,
    handler: Handler,
    *,
    options: BusOptions,
    service: str,
    tracing: Tracing,
    workers: int = 4,
    redelivery: Redelivery | None = None,
) -> None:
    """Hand every event of the reaction to the handler, at most `workers` at a time; `options` are the broker's."""
    outcome = _Outcome(service, reaction, handler, tracing, redelivery or Redelivery())

    @broker.subscriber(
        reaction.subject,
        stream=JStream(reaction.stream, declare=False),
        durable=reaction.durable,
        pull_sub=PullSub(batch_size=workers),
        max_workers=workers,
        # A subscriber has an inbox prefix of its own, and only the user's is permitted.
        inbox_prefix=f"{options.inbox_prefix}.".encode(),  # FastStream appends the token without a dot
        ack_policy=AckPolicy.MANUAL,
        decoder=_undecoded,
    )
    async def on_message(message: Msg) -> None:
        await outcome.settle(message)


async def _undecoded(message: NatsMessage) -> Msg:
    """The message as it came: its body is read where a failure can be settled."""
    return message.raw_message


class _Outcome:
    """Runs the handler on one message and settles it."""

    def __init__(
        self, service: str, reaction: Reaction, handler: Handler, tracing: Tracing, redelivery: Redelivery
    ) -> None:
        self._service = service
        self._reaction = reaction
        self._handler = handler
        self._tracing = tracing
        self._redelivery = redelivery
        self._log = structlog.get_logger(service=service, consumer=reaction.durable)

    async def settle(self, message: Msg) -> None:
        deliveries = message.metadata.num_delivered
        try:
            recorded = Recorded(message.metadata.sequence.stream, message.subject, decode(message.data))
            async with _kept(message, self._reaction.ack_wait_s / 3):
                await self._handle(recorded)
        except (UnavailableError, BusUnavailableError) as error:
            self._log.warning("reaction_waits", subject=message.subject, reason=error.message)
            await message.nak(delay=self._redelivery.pause_s(deliveries))
        except UnhandleableError as error:
            await self._bury(message, error.reason, error.message)
        except EventError as error:
            await self._bury(message, "malformed", error.message)
        except Exception as error:  # noqa: BLE001  # whatever a handler does, the message must be settled
            self._log.exception("reaction_failed", subject=message.subject, deliveries=deliveries)
            if deliveries >= self._redelivery.max_deliveries:
                await self._bury(message, type(error).__name__, str(error))
            else:
                await message.nak(delay=self._redelivery.pause_s(deliveries))
        else:
            await message.ack()

    async def _handle(self, recorded: Recorded) -> None:
        event = recorded.event
        with (
            structlog.contextvars.bound_contextvars(job=event.subject, attempt=event.attempt),
            self._tracing.continued(event.traceparent, f"react {event.type}"),
        ):
            await self._handler(recorded)

    async def _bury(self, message: Msg, reason: str, detail: str) -> None:
        letter = DeadLetter(
            service=self._service,
            reason=reason,
            detail=detail,
            stream=self._reaction.stream,
            sequence=message.metadata.sequence.stream,
            subject=message.subject,
            body=message.data,
        )
        await bury(message._client.jetstream(), letter)  # noqa: SLF001  # the message's own connection has the rights
        self._log.error("message_buried", subject=message.subject, reason=reason, detail=detail)
        await message.ack()


@contextlib.asynccontextmanager
async def _kept(message: Msg, every_s: float) -> AsyncIterator[None]:
    """Tell the server that the message is being worked on, for as long as the block takes."""
    telling = asyncio.create_task(_tell_progress(message, every_s))
    try:
        yield
    finally:
        await end(telling)


async def _tell_progress(message: Msg, every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        # Without a connection the message comes again anyway, and handlers are idempotent.
        with contextlib.suppress(NatsError, OSError):
            await message.in_progress()
