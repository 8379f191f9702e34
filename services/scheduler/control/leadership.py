"""One scheduler is active: it holds a lease, and every transition that it makes is fenced with its epoch.

The lease is a key with a time to live in the bucket `leases`, renewed well before it ends. Whoever finds it free, or
finds its own name in it (one scheduler runs under a name, so that is a predecessor who died), takes it and begins an
epoch. A holder that dies or halts is thereby followed within the life of the lease and a look of those who stand by.

The lease only keeps schedulers from getting into each other's way; what makes a deposed one harmless is the fence,
which the server refuses once a newer epoch has begun. So while NATS is away the holder simply works on: it can write
nothing anyway, and finds out where it stands when NATS is back.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final

import structlog
from nats.errors import Error as NatsError
from nats.js.errors import APIError, KeyDeletedError, KeyNotFoundError, KeyWrongLastSequenceError
from nats.js.kv import KeyValue

from shared.bus import Bus, BusUnavailableError, Fence, FencedError
from shared.bus.publish import EXPECTED_SEQUENCE, WRONG_SEQUENCE
from shared.bus.streams import LEASE_BUCKET
from shared.clock import Clock
from shared.events import Event, LeaderElected
from shared.tasks import end

KEY: Final = "scheduler"
LIFE_S: Final = 3
RENEWAL_S: Final = 1.0
STANDBY_S: Final = 0.25
_AWAY: Final = (NatsError, APIError, OSError, TimeoutError, BusUnavailableError)

Work = Callable[[Fence], Coroutine[None, None, None]]


class Leadership:
    """Runs the work of a leader while, and only while, this scheduler is the leader."""

    def __init__(self, bus: Bus, clock: Clock, identity: str) -> None:
        self._bus = bus
        self._clock = clock
        self._identity = identity
        self._revision = 0
        self._log = structlog.get_logger(service="scheduler", holder=identity)

    async def run(self, work: Work) -> None:
        """Wait for the lease, work, and wait again when it is lost; ends only when cancelled."""
        try:
            while True:
                if await self._try(self._claim) and (fence := await self._elect()):
                    self._log.info("leadership_taken", epoch=fence.epoch)
                    await self._lead(work, fence)
                else:
                    await self._clock.sleep(STANDBY_S)
        finally:
            await self._release()

    async def _lead(self, work: Work, fence: Fence) -> None:
        working = asyncio.create_task(work(fence))
        renewing = asyncio.create_task(self._renew())
        try:
            await asyncio.wait([working, renewing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(working, renewing)
        outcome = None if working.cancelled() else working.exception()
        if isinstance(outcome, FencedError):
            self._revision = 0
            self._log.warning("leadership_lost", reason=outcome.message)
        elif outcome is not None:
            raise outcome

    async def _renew(self) -> None:
        """Return when somebody else has the lease."""
        while True:
            await self._clock.sleep(RENEWAL_S)
            if await self._try(self._claim) is False:
                self._log.warning("leadership_lost", reason="somebody else holds the lease")
                return

    async def _try(self, claim: Callable[[], Awaitable[bool]]) -> bool | None:
        """What the claim came to; None where NATS is away and nothing is known."""
        try:
            return await claim()
        except _AWAY as error:
            self._log.warning("lease_out_of_reach", reason=str(error) or type(error).__name__)
            return None

    async def _claim(self) -> bool:
        """Take or renew the lease; False where somebody else has it."""
        if self._revision and await self._write(self._revision):
            return True
        self._revision = 0
        bucket = await self._bus.js.key_value(LEASE_BUCKET)
        entry = await _entry(bucket)
        if entry is not None and _holder(entry) not in ("", self._identity):
            return False
        return await (self._write(entry.revision or 0) if entry else self._create(bucket))

    async def _create(self, bucket: KeyValue) -> bool:
        try:
            self._revision = await bucket.create(KEY, self._value, msg_ttl=LIFE_S)
        except KeyWrongLastSequenceError:
            return False
        return True

    async def _write(self, expected: int) -> bool:
        """Write the lease over the expected revision; False where it has moved on."""
        headers = {EXPECTED_SEQUENCE: str(expected)}
        try:
            subject = f"$KV.{LEASE_BUCKET}.{KEY}"
            ack = await self._bus.js.publish(subject, self._value, headers=headers, msg_ttl=LIFE_S)
        except APIError as error:
            if error.err_code not in WRONG_SEQUENCE:
                raise
            return False
        self._revision = ack.seq
        return True

    async def _elect(self) -> Fence | None:
        """Begin an epoch; None where somebody else was quicker or NATS is away."""
        try:
            present = await self._bus.history.epoch()
            return Fence(await self._bus.elect(self._event(present), expected=present))
        except (FencedError, BusUnavailableError) as error:
            self._log.warning("election_lost", reason=error.message)
            return None

    def _event(self, present_epoch: int) -> Event:
        return Event.of(
            LeaderElected(holder=self._identity),
            job=KEY,
            attempt=0,
            time=self._clock.now(),
            owner="",
            project="",
            part=f"{self._identity}/{present_epoch}",
        )

    async def _release(self) -> None:
        """Leave the lease to whoever waits, without insisting."""
        if not self._revision or not self._bus.client.is_connected:
            return
        try:
            bucket = await self._bus.js.key_value(LEASE_BUCKET)
            await bucket.delete(KEY, last=self._revision)
        except _AWAY:
            self._log.debug("lease_left_to_expire")

    @property
    def _value(self) -> bytes:
        return json.dumps({"holder": self._identity}).encode()


async def _entry(bucket: KeyValue) -> KeyValue.Entry | None:
    try:
        return await bucket.get(KEY)
    except (KeyNotFoundError, KeyDeletedError):
        return None


def _holder(entry: KeyValue.Entry) -> str:
    """Who has the lease; nobody where its time is over: the server then leaves a marker without a value."""
    return str(json.loads(entry.value)["holder"]) if entry.value else ""
