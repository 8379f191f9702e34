"""Following a stream from a sequence on, for read models and live views: every message once, in order, no acks.

The mechanism is the ordered consumer: an ephemeral push consumer whose deliveries are numbered. A gap in the numbers, a
missed heartbeat or a lost connection makes the follower throw the consumer away and make a new one behind the last
message it gave out. `CaughtUp` is given once, when everything that the stream held at the start has been given.

Whoever writes to a disk takes `batches`: whatever has come by the time it asks, so that a long past is read in large
steps and the present one event at a time. What a message means is up to a reader: `read_event`, or `read_bundle` for
ARCHIVE.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import APIError

from shared.bundles import MalformedBundleError, unpack
from shared.events import EventError, decode
from shared.jobs import Recorded

_HEARTBEAT_S: Final = 1.0
_SILENCE_S: Final = 2.5 * _HEARTBEAT_S
_POLLS: Final = 5
_PAUSE_S: Final = 0.25
_INACTIVE_S: Final = 30.0
_BATCH_MAX: Final = 512


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """All that was in the stream when following began has been given; `sequence` is the last one given."""

    sequence: int


class _LostTrackError(Exception):
    """The consumer skipped or fell silent: make a new one."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Archived events of one job; `sequence` is that of the bundle in ARCHIVE, the events have those of JOBS."""

    sequence: int
    events: tuple[Recorded, ...]


Item = TypeVar("Item")
Reader = Callable[[int, str, bytes], Item]
Batch = tuple[Recorded | CaughtUp, ...]


def read_event(sequence: int, subject: str, body: bytes) -> Recorded:
    """A message that is an event; raises EventError."""
    return Recorded(sequence, subject, decode(body))


def read_bundle(sequence: int, _subject: str, body: bytes) -> Bundle:
    """A message of ARCHIVE; raises MalformedBundleError, EventError."""
    events = (Recorded(message.sequence, message.subject, decode(message.body)) for message in unpack(body))
    return Bundle(sequence, tuple(events))


class Follower(Generic[Item]):
    """One pass over a stream that never ends."""

    def __init__(
        self,
        client: Client,
        js: JetStreamContext,
        stream: str,
        subjects: list[str],
        after: int,
        read: Reader[Item],
        *,
        last_only: bool = False,
    ) -> None:
        self._read = read
        self._client = client
        self._js = js
        self._stream = stream
        self._subjects = subjects
        self._last = after
        self._last_only = last_only
        self._delivered = 0
        self._announced = False
        self._log = structlog.get_logger(stream=stream)

    async def messages(self) -> AsyncIterator[Item | CaughtUp]:
        """Events as they come; what is no event is logged and left out."""
        async for batch in self.batches():
            for item in batch:
                yield item

    async def batches(self) -> AsyncGenerator[tuple[Item | CaughtUp, ...], None]:
        """The same, as many at a time as have come; never none."""
        while True:
            try:
                async for batch in self._consume():
                    yield batch
            except (TimeoutError, _LostTrackError, NatsError, APIError, OSError) as error:
                self._log.info("follow_resumed", after=self._last, reason=str(error) or type(error).__name__)
            await asyncio.sleep(_PAUSE_S)

    async def _consume(self) -> AsyncIterator[tuple[Item | CaughtUp, ...]]:
        inbox, arrivals = self._client.new_inbox(), _Arrivals(self._client)
        subscription = await self._client.subscribe(
            inbox, cb=arrivals.on_message, pending_msgs_limit=-1, pending_bytes_limit=-1
        )
        consumer = None
        try:
            info = await self._js.add_consumer(self._stream, self._config(inbox))
            consumer = info.name
            if not self._announced and not info.num_pending:
                self._announced = True
                yield (CaughtUp(self._last),)
            self._delivered = 0
            while True:
                batch, lost = await self._given(await arrivals.take())
                if batch:
                    yield batch
                if lost is not None:
                    raise lost
        finally:
            await self._discard(subscription, consumer)

    def _config(self, inbox: str) -> ConsumerConfig:
        past_is_short = self._last_only and not self._last
        return ConsumerConfig(
            deliver_subject=inbox,
            deliver_policy=DeliverPolicy.LAST_PER_SUBJECT if past_is_short else DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=None if past_is_short else self._last + 1,
            filter_subjects=self._subjects,
            ack_policy=AckPolicy.NONE,
            max_deliver=1,
            flow_control=True,
            idle_heartbeat=_HEARTBEAT_S,
            inactive_threshold=_INACTIVE_S,
            mem_storage=True,
            num_replicas=1,
        )

    async def _given(self, messages: list[Msg]) -> tuple[tuple[Item | CaughtUp, ...], Exception | None]:
        """What these messages give; where something is wrong with one, those before it, and the error."""
        batch: list[Item | CaughtUp] = []
        try:
            for message in messages:
                if (message.headers or {}).get("Status") == "100":
                    await self._control(message)
                else:
                    batch += self._taken(message)
        except (_LostTrackError, NatsError, OSError) as error:
            return tuple(batch), error
        return tuple(batch), None

    def _taken(self, message: Msg) -> Iterator[Item | CaughtUp]:
        metadata = message.metadata
        self._delivered += 1
        if metadata.sequence.consumer != self._delivered:
            raise _LostTrackError(f"delivery {metadata.sequence.consumer} came instead of {self._delivered}")
        self._last = metadata.sequence.stream
        item = self._item(message)
        if item is not None:
            yield item
        if not self._announced and metadata.num_pending == 0:
            self._announced = True
            yield CaughtUp(self._last)

    def _item(self, message: Msg) -> Item | None:
        if not message.data:
            return None
        try:
            return self._read(self._last, message.subject, message.data)
        except (EventError, MalformedBundleError) as error:
            self._log.error("event_unreadable", subject=message.subject, sequence=self._last, error=error.message)
            return None

    async def _control(self, message: Msg) -> None:
        headers = message.headers or {}
        if message.reply:
            await self._client.publish(message.reply)
        elif stalled := headers.get("Nats-Consumer-Stalled"):
            await self._client.publish(stalled)
        sent = int(headers.get("Nats-Last-Consumer", self._delivered))
        if sent != self._delivered:
            raise _LostTrackError(f"{sent} deliveries were sent, {self._delivered} came")

    async def _discard(self, subscription: Subscription, consumer: str | None) -> None:
        try:
            await subscription.unsubscribe()
            if consumer is not None and self._client.is_connected:
                await self._js.delete_consumer(self._stream, consumer)
        except (TimeoutError, NatsError, APIError, OSError):
            self._log.debug("consumer_left_to_expire", consumer=consumer)


class _Arrivals:
    """Messages of a subscription until they are taken; the client library's own waiting costs a task a message."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waiting: deque[Msg] = deque()
        self._arrived = asyncio.Event()

    async def on_message(self, message: Msg) -> None:
        self._waiting.append(message)
        self._arrived.set()

    async def take(self) -> list[Msg]:
        """What has come, waiting for the first. Raises _LostTrackError where nothing comes, heartbeats included.

        A server that was away has forgotten the consumer, so a reconnect ends the waiting.
        """
        reconnects = self._client.stats["reconnects"]
        for _ in range(_POLLS):
            if await self._has_come(_SILENCE_S / _POLLS):
                return [self._waiting.popleft() for _ in range(min(len(self._waiting), _BATCH_MAX))]
            if self._client.stats["reconnects"] != reconnects:
                raise _LostTrackError("the connection was lost for a while")
        raise _LostTrackError(f"nothing came for {_SILENCE_S:g} s")

    async def _has_come(self, within_s: float) -> bool:
        if not self._waiting:
            self._arrived.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._arrived.wait()
        return bool(self._waiting)
