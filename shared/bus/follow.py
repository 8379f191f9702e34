"""Following a stream from a sequence on, for read models and live views: every message once, in order, no acks.

The mechanism is the ordered consumer: an ephemeral push consumer whose deliveries are numbered. A gap in the numbers, a
missed heartbeat or a lost connection makes the follower throw the consumer away and make a new one behind the last
message it gave out. `CaughtUp` is given once, when everything that the stream held at the start has been given.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import APIError

from shared.events import EventError, decode
from shared.jobs import Recorded

_HEARTBEAT_S: Final = 1.0
_SILENCE_S: Final = 2.5 * _HEARTBEAT_S
_POLLS: Final = 5
_PAUSE_S: Final = 0.25
_INACTIVE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """All that was in the stream when following began has been given; `sequence` is the last one given."""

    sequence: int


class _LostTrackError(Exception):
    """The consumer skipped or fell silent: make a new one."""


class Follower:
    """One pass over a stream that never ends."""

    def __init__(self, client: Client, js: JetStreamContext, stream: str, subjects: list[str], after: int) -> None:
        self._client = client
        self._js = js
        self._stream = stream
        self._subjects = subjects
        self._last = after
        self._announced = False
        self._log = structlog.get_logger(stream=stream)

    async def messages(self) -> AsyncIterator[Recorded | CaughtUp]:
        """Events as they come; what is no event is logged and left out."""
        while True:
            try:
                async for item in self._consume():
                    yield item
            except (TimeoutError, _LostTrackError, NatsError, APIError, OSError) as error:
                self._log.info("follow_resumed", after=self._last, reason=str(error) or type(error).__name__)
            await asyncio.sleep(_PAUSE_S)

    async def _consume(self) -> AsyncIterator[Recorded | CaughtUp]:
        inbox = self._client.new_inbox()
        subscription = await self._client.subscribe(inbox, pending_msgs_limit=-1, pending_bytes_limit=-1)
        consumer = None
        try:
            info = await self._js.add_consumer(self._stream, self._config(inbox))
            consumer = info.name
            if not self._announced and not info.num_pending:
                self._announced = True
                yield CaughtUp(self._last)
            async for item in self._deliveries(subscription):
                yield item
        finally:
            await self._discard(subscription, consumer)

    def _config(self, inbox: str) -> ConsumerConfig:
        return ConsumerConfig(
            deliver_subject=inbox,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self._last + 1,
            filter_subjects=self._subjects,
            ack_policy=AckPolicy.NONE,
            max_deliver=1,
            flow_control=True,
            idle_heartbeat=_HEARTBEAT_S,
            inactive_threshold=_INACTIVE_S,
            mem_storage=True,
            num_replicas=1,
        )

    async def _deliveries(self, subscription: Subscription) -> AsyncIterator[Recorded | CaughtUp]:
        delivered = 0
        while True:
            message = await self._next(subscription)
            if (message.headers or {}).get("Status") == "100":
                await self._control(message, delivered)
                continue
            delivered += 1
            metadata = message.metadata
            if metadata.sequence.consumer != delivered:
                raise _LostTrackError(f"delivery {metadata.sequence.consumer} came instead of {delivered}")
            self._last = metadata.sequence.stream
            recorded = self._recorded(message)
            if recorded is not None:
                yield recorded
            if not self._announced and metadata.num_pending == 0:
                self._announced = True
                yield CaughtUp(self._last)

    async def _next(self, subscription: Subscription) -> Msg:
        """The next message; a server that was away has forgotten the consumer, so a reconnect ends the waiting."""
        reconnects = self._client.stats["reconnects"]
        for _ in range(_POLLS):
            with contextlib.suppress(NatsTimeoutError):
                return await subscription.next_msg(timeout=_SILENCE_S / _POLLS)
            if self._client.stats["reconnects"] != reconnects:
                raise _LostTrackError("the connection was lost for a while")
        raise _LostTrackError(f"nothing came for {_SILENCE_S:g} s")

    def _recorded(self, message: Msg) -> Recorded | None:
        if not message.data:
            return None
        try:
            return Recorded(self._last, message.subject, decode(message.data))
        except EventError as error:
            self._log.error("event_unreadable", subject=message.subject, sequence=self._last, error=error.message)
            return None

    async def _control(self, message: Msg, delivered: int) -> None:
        headers = message.headers or {}
        if message.reply:
            await self._client.publish(message.reply)
        elif stalled := headers.get("Nats-Consumer-Stalled"):
            await self._client.publish(stalled)
        if int(headers.get("Nats-Last-Consumer", delivered)) != delivered:
            raise _LostTrackError(f"{headers['Nats-Last-Consumer']} deliveries were sent, {delivered} came")

    async def _discard(self, subscription: Subscription, consumer: str | None) -> None:
        try:
            await subscription.unsubscribe()
            if consumer is not None and self._client.is_connected:
                await self._js.delete_consumer(self._stream, consumer)
        except (TimeoutError, NatsError, APIError, OSError):
            self._log.debug("consumer_left_to_expire", consumer=consumer)
