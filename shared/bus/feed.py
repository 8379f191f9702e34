"""Messages of one durable consumer as they come, in batches as large as has piled up meanwhile.

The feed keeps a pull request open at the server and opens the next one when half of what it asked for has come, so that
the next messages travel while a batch is being made durable, and the first one after a rest comes at once. (The client
library's `fetch` waits for a full batch or the end of its time limit.) A request ends by count, by a status message, or
unnoticed with a lost connection; therefore heartbeats are asked for, and a feed that hears nothing asks again. Requests
are bounded in bytes: a server throws a client out that is too slow to take what it asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Final

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from shared.bus.bus import Bus
from shared.bus.streams import Reaction

BATCH_MESSAGES: Final = 64
_REQUEST_BYTES: Final = 1280 * 1024
"""More than any message has, and so little that all feeds together stay below what a server holds for a client."""
_EXPIRES_S: Final = 60.0
_HEARTBEAT_S: Final = 10.0
_LOOK_S: Final = 1.0
_TURNS: Final = 4
"""Turns of the loop from bytes at the socket to a message that waits."""
_NANOSECONDS: Final = 1_000_000_000
_HEARTBEAT: Final = "100"


class Feed:
    """The messages of a durable consumer."""

    def __init__(self, bus: Bus, reaction: Reaction) -> None:
        self._client = bus.client
        self._reaction = reaction
        self._inbox = self._client.new_inbox()
        self._subscription: Subscription | None = None
        self._waiting: list[Msg] = []
        self._arrived = asyncio.Event()
        self._asked_for = 0
        self._heard_at = 0.0
        self._reconnects = 0

    async def open(self) -> None:
        """Begin to listen."""
        self._subscription = await self._client.subscribe(
            self._inbox, cb=self._on_message, pending_bytes_limit=-1, pending_msgs_limit=-1
        )

    async def close(self) -> None:
        """Leave the messages to whoever reads the consumer next, those that came and were not taken at once."""
        subscription, self._subscription = self._subscription, None
        waiting, self._waiting = self._waiting, []
        with contextlib.suppress(NatsError, OSError):
            if subscription is not None:
                await subscription.unsubscribe()
            for message in waiting:
                await message.nak()

    async def batch(self) -> list[Msg]:
        """What has come; waits for the first."""
        while not self._waiting:
            await self._ask()
            self._arrived.clear()
            try:
                async with asyncio.timeout(_LOOK_S):
                    await self._arrived.wait()
            except TimeoutError:
                self._look_for_silence()
        batch, self._waiting = self._waiting[:BATCH_MESSAGES], self._waiting[BATCH_MESSAGES:]
        await self._ask()
        return batch

    async def more(self) -> list[Msg]:
        """What comes at once; waits for nothing but for the loop to hand over what lies there already."""
        for _ in range(_TURNS):
            if self._waiting:
                return await self.batch()
            await asyncio.sleep(0)
        return []

    async def _ask(self) -> None:
        """Open another request where half of the last one is used up."""
        outstanding = self._asked_for + len(self._waiting)
        if outstanding > BATCH_MESSAGES // 2 or not self._client.is_connected:
            return
        count = BATCH_MESSAGES - outstanding
        request = {
            "batch": count,
            "max_bytes": _REQUEST_BYTES,
            "expires": int(_EXPIRES_S * _NANOSECONDS),
            "idle_heartbeat": int(_HEARTBEAT_S * _NANOSECONDS),
        }
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._reaction.stream}.{self._reaction.durable}"
        # Counted before it is sent: its first messages may come while the publish still waits for the socket.
        self._asked_for += count
        self._heard_at = _now()
        try:
            await self._client.publish(subject, json.dumps(request).encode(), reply=self._inbox)
        except (NatsError, OSError):
            self._asked_for = max(0, self._asked_for - count)

    def _look_for_silence(self) -> None:
        """Forget requests that the server cannot know any more."""
        reconnects = self._client.stats["reconnects"]
        if reconnects != self._reconnects or _now() - self._heard_at > 2 * _HEARTBEAT_S + _LOOK_S:
            self._reconnects = reconnects
            self._asked_for = 0

    async def _on_message(self, message: Msg) -> None:
        self._heard_at = _now()
        status = (message.headers or {}).get("Status")
        if status is None:
            self._asked_for = max(0, self._asked_for - 1)
            self._waiting.append(message)
        elif status != _HEARTBEAT:
            unserved = int((message.headers or {}).get("Nats-Pending-Messages", self._asked_for))
            self._asked_for = max(0, self._asked_for - unserved)
        if status != _HEARTBEAT:
            self._arrived.set()


def _now() -> float:
    return asyncio.get_running_loop().time()
