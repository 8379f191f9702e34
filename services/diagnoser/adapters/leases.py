"""Leases: two checks never put the same machine under load, and one instance alone diagnoses the nodes of an attempt.

A lease is a key with a time to live in the bucket `leases`, made with compare-and-set and renewed while its check runs.
Its value is the check: an instance that takes a check over finds the leases of its dead predecessor in the name of the
same check, and goes on with them at once. A predecessor who was only halted finds its leases written over when it
wakes, and gives up. Leases of all machines of a check are taken together or not at all. The diagnosis of an attempt has
one lease by its own name, and its value is the instance: a job waits for no check, nor for another job.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Final

from nats.errors import Error as NatsError
from nats.js.errors import APIError, KeyDeletedError, KeyNotFoundError, KeyWrongLastSequenceError
from nats.js.kv import KeyValue

from shared.agent_wire import machine_token
from shared.bus import Bus, BusUnavailableError
from shared.bus.publish import EXPECTED_SEQUENCE, WRONG_SEQUENCE
from shared.bus.streams import LEASE_BUCKET
from shared.clock import Clock
from shared.errors import UnavailableError
from shared.tasks import end

LIFE_S: Final = 15
RENEWAL_S: Final = 5.0
_AT_ONCE: Final = 32
_AWAY: Final = (NatsError, APIError, OSError, TimeoutError)


class Leases:
    """The leases of this instance."""

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock

    @asynccontextmanager
    async def held(self, machines: Iterable[str], check: str) -> AsyncIterator[asyncio.Event]:
        """Hold these machines, or what else has a name, inside the block; the event is set when one of them was lost.

        Raises UnavailableError where another check has one of them, BusUnavailableError while NATS is away.
        """
        lease = _Leases(self._bus, sorted({machine_token(machine) for machine in machines}), check)
        try:
            await _taken(lease)
            renewing = asyncio.create_task(self._renew(lease))
            try:
                yield lease.lost
            finally:
                await end(renewing)
        finally:
            await lease.release()

    async def _renew(self, lease: _Leases) -> None:
        while not lease.lost.is_set():
            await self._clock.sleep(RENEWAL_S)
            with suppress(*_AWAY):  # while NATS is away nobody else can take them either
                await lease.renew()


class _Leases:
    """The leases of one run of a check, by machine with the revision of each."""

    def __init__(self, bus: Bus, machines: list[str], check: str) -> None:
        self._bus = bus
        self._machines = machines
        self._check = check
        self._revisions: dict[str, int] = {}
        self.lost = asyncio.Event()

    async def take(self) -> None:
        """Take all of them; where that fails, `release` gives back those that were taken."""
        bucket = await self._bus.js.key_value(LEASE_BUCKET)
        for first in range(0, len(self._machines), _AT_ONCE):
            taking = (self._take(bucket, machine) for machine in self._machines[first:][:_AT_ONCE])
            failed = [each for each in await asyncio.gather(*taking, return_exceptions=True) if each is not None]
            if failed:
                raise failed[0]

    async def renew(self) -> None:
        """Write all of them anew; those that somebody else has by now are lost."""
        for machine in list(self._revisions):
            if not await self._write(machine, self._revisions[machine]):
                del self._revisions[machine]
                self.lost.set()

    async def release(self) -> None:
        """Leave them to whoever waits, without insisting: they end by themselves."""
        with suppress(*_AWAY):
            bucket = await self._bus.js.key_value(LEASE_BUCKET)
            for machine, revision in self._revisions.items():
                with suppress(KeyWrongLastSequenceError):
                    await bucket.delete(_key(machine), last=revision)

    async def _take(self, bucket: KeyValue, machine: str) -> None:
        entry = await _entry(bucket, machine)
        holder = (entry.value or b"").decode() if entry else ""
        if holder not in ("", self._check):
            raise UnavailableError(f"{machine} is being tested by {holder}")
        taken = await (self._write(machine, entry.revision or 0) if entry else self._create(bucket, machine))
        if not taken:
            raise UnavailableError(f"{machine} is being tested by somebody else")

    async def _create(self, bucket: KeyValue, machine: str) -> bool:
        with suppress(KeyWrongLastSequenceError):
            self._revisions[machine] = await bucket.create(_key(machine), self._check.encode(), msg_ttl=LIFE_S)
            return True
        return False

    async def _write(self, machine: str, expected: int) -> bool:
        headers = {EXPECTED_SEQUENCE: str(expected)}
        subject = f"$KV.{LEASE_BUCKET}.{_key(machine)}"
        try:
            ack = await self._bus.js.publish(subject, self._check.encode(), headers=headers, msg_ttl=LIFE_S)
        except APIError as error:
            if error.err_code not in WRONG_SEQUENCE:
                raise
            return False
        self._revisions[machine] = ack.seq
        return True


async def _taken(lease: _Leases) -> None:
    try:
        await lease.take()
    except _AWAY as error:
        raise BusUnavailableError(f"leases are out of reach: {type(error).__name__}") from error


def _key(machine: str) -> str:
    return f"diagnosis.{machine}"


async def _entry(bucket: KeyValue, machine: str) -> KeyValue.Entry | None:
    try:
        return await bucket.get(_key(machine))
    except (KeyNotFoundError, KeyDeletedError):
        return None
