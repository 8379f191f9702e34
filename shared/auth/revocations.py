"""Tokens that are no longer good although they have not expired.

The KV bucket `revocations` holds two kinds of keys: `token.<id>` for one token (logout) and `user.<id>` with a time for
all tokens issued to a user until then (password changed, rights changed, user deleted). Entries live as long as a token
can. Every service watches the bucket and answers from memory; the watch is made anew every two minutes from a fresh
snapshot, so that one that died unnoticed cannot stay dead. Before the first snapshot nobody is let in.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol

import structlog
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.errors import APIError
from nats.js.kv import KV_DEL, KV_PURGE, KeyValue

from shared.auth.tokens import LIFETIME, Claims
from shared.bus.errors import BusUnavailableError
from shared.bus.streams import REVOCATION_BUCKET
from shared.clock import Clock, parse_rfc3339, rfc3339
from shared.errors import UnavailableError

REFRESH_S: Final = 120.0
_RETRY_S: Final = 1.0
_PUBLISH_TIMEOUT_S: Final = 5.0
_SNAPSHOT_TIMEOUT_S: Final = 5.0
_AWAY: Final = (NatsError, APIError, OSError, asyncio.TimeoutError)


class Revocations(Protocol):
    """Knows which tokens were taken back."""

    def revoked(self, claims: Claims) -> bool:
        """Whether the token with these claims must not be accepted."""
        ...


@dataclass(frozen=True, slots=True)
class RevocationTable:
    """What the bucket holds, by key: the time until which tokens were taken back."""

    until: dict[str, datetime] = field(default_factory=dict)

    def revoked(self, claims: Claims) -> bool:
        """Whether the token itself, or all of its user's tokens of that time, were taken back."""
        since = self.until.get(f"user.{claims.principal.user_id}")
        return f"token.{claims.token_id}" in self.until or (since is not None and claims.issued_at <= since)

    def apply(self, key: str, value: bytes | None) -> None:
        """Take over one entry; None where it was removed."""
        if value is None:
            self.until.pop(key, None)
            return
        try:
            self.until[key] = parse_rfc3339(value.decode())
        except ValueError:
            structlog.get_logger().error("revocation_unreadable", key=key)


class KvRevocations:
    """The bucket as every service sees it; the submitter writes to it too."""

    def __init__(self, js: JetStreamContext, clock: Clock, *, lifetime: timedelta = LIFETIME) -> None:
        self._js = js
        self._clock = clock
        self._lifetime = lifetime
        self._table: RevocationTable | None = None
        self.loaded = asyncio.Event()

    def revoked(self, claims: Claims) -> bool:
        """Whether the token was taken back; raises UnavailableError before the first snapshot."""
        if self._table is None:
            raise UnavailableError("the list of revoked tokens is not loaded yet; try again")
        return self._table.revoked(claims)

    async def revoke_token(self, claims: Claims) -> None:
        """Take back one token."""
        await self._put(f"token.{claims.token_id}")

    async def revoke_user(self, user_id: str) -> None:
        """Take back every token that the user has now."""
        await self._put(f"user.{user_id}")

    async def run(self) -> None:
        """Keep the table up to date; ends only when cancelled."""
        log = structlog.get_logger(bucket=REVOCATION_BUCKET)
        while True:
            try:
                await self._watch()
            except _AWAY as error:
                log.warning("revocations_watch_lost", reason=str(error) or type(error).__name__)
                await asyncio.sleep(_RETRY_S)

    async def check(self) -> str:
        """Readiness: whether a snapshot is there."""
        if self._table is None:
            raise UnavailableError("the list of revoked tokens is not loaded yet")
        return f"{len(self._table.until)} revocations"

    async def _put(self, key: str) -> None:
        value = rfc3339(self._clock.now()).encode()
        subject = f"$KV.{REVOCATION_BUCKET}.{key}"
        life_s = self._lifetime.total_seconds()
        try:
            await self._js.publish(subject, value, timeout=_PUBLISH_TIMEOUT_S, msg_ttl=life_s)
        except _AWAY as error:
            raise BusUnavailableError("JetStream did not take the revocation; try again") from error
        if self._table is not None:
            self._table.apply(key, value)

    async def _watch(self) -> None:
        """One snapshot and what changes after it, for `REFRESH_S`."""
        bucket = await self._js.key_value(REVOCATION_BUCKET)
        watcher = await bucket.watchall(inactive_threshold=30)
        try:
            await self._take_over(watcher)
        finally:
            await watcher.stop()  # type: ignore[no-untyped-call]  # nats-py has no annotation there

    async def _take_over(self, watcher: KeyValue.KeyWatcher) -> None:
        table = RevocationTable()
        while (entry := await _next(watcher)) is not None:
            table.apply(entry.key, _value_of(entry))
        self._table = table
        self.loaded.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REFRESH_S):
                async for entry in watcher:
                    table.apply(entry.key, _value_of(entry))


async def _next(watcher: KeyValue.KeyWatcher) -> KeyValue.Entry | None:
    """The next entry of the snapshot, None at its end."""
    entry: KeyValue.Entry | None = await watcher.updates(timeout=_SNAPSHOT_TIMEOUT_S)  # type: ignore[no-untyped-call]
    return entry


def _value_of(entry: KeyValue.Entry) -> bytes | None:
    return None if entry.operation in (KV_DEL, KV_PURGE) else entry.value
