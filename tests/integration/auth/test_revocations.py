"""Revocations through a real bucket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from shared.auth.principal import Principal
from shared.auth.revocations import KvRevocations
from shared.auth.tokens import Claims
from shared.bus import Bus
from shared.bus.streams import REVOCATION_BUCKET
from shared.clock import ManualClock, SystemClock
from shared.ids import UserId
from tests.support.nats import NatsServer
from tests.support.services import eventually, until_connected


def claims(token_id: str, user: str = "u-ada") -> Claims:
    now = SystemClock().now()
    return Claims(Principal(UserId(user), "ada"), token_id, now - timedelta(seconds=1), now + timedelta(hours=1))


@asynccontextmanager
async def watching(revocations: KvRevocations) -> AsyncIterator[KvRevocations]:
    task = asyncio.create_task(revocations.run())
    await asyncio.wait_for(revocations.loaded.wait(), 45)
    yield revocations
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until_revoked(revocations: KvRevocations, token: Claims) -> None:
    async def look() -> bool | None:
        return revocations.revoked(token) or None

    await eventually(look)


async def test_what_one_service_revokes_every_service_refuses(bus: Bus) -> None:
    async with (
        watching(KvRevocations(bus.js, SystemClock())) as writer,
        watching(KvRevocations(bus.js, SystemClock())) as reader,
    ):
        one, other, bob = claims("t1"), claims("t2"), claims("t3", user="u-bob")
        await writer.revoke_token(one)
        assert writer.revoked(one)
        await until_revoked(reader, one)
        assert not reader.revoked(other)
        await writer.revoke_user("u-ada")
        await until_revoked(reader, other)
        assert not reader.revoked(bob)


async def test_a_service_that_starts_later_knows_what_was_revoked_before(bus: Bus) -> None:
    await KvRevocations(bus.js, SystemClock()).revoke_token(claims("t1"))
    async with watching(KvRevocations(bus.js, SystemClock())) as late:
        assert late.revoked(claims("t1"))
        assert await late.check() == "1 revocations"


async def test_an_entry_lives_as_long_as_a_token_can(bus: Bus) -> None:
    await KvRevocations(bus.js, ManualClock(), lifetime=timedelta(seconds=90)).revoke_token(claims("t1"))
    message = await bus.js.get_last_msg(f"KV_{REVOCATION_BUCKET}", f"$KV.{REVOCATION_BUCKET}.token.t1")
    assert (message.headers or {})["Nats-TTL"] == "90"


async def test_revocations_outlive_a_restart_of_the_server(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)
    server.start()
    await server.wipe()
    bus = await server.bus()
    try:
        async with watching(KvRevocations(bus.js, SystemClock())) as revocations:
            await revocations.revoke_token(claims("t1"))
            server.kill()
            await until_connected(bus, wanted=False)
            assert revocations.revoked(claims("t1"))
            server.start()
            await until_connected(bus, wanted=True)
            async with watching(KvRevocations(bus.js, SystemClock())) as late:
                assert late.revoked(claims("t1"))
    finally:
        await bus.close()
        server.kill()
