"""Password hashes, in a bucket of their own that no other service may read."""

from __future__ import annotations

import json
from typing import Final

from nats.errors import Error as NatsError
from nats.js.errors import APIError, KeyNotFoundError

from shared.bus import Bus, BusUnavailableError
from shared.bus.streams import CREDENTIALS_BUCKET

_AWAY: Final = (NatsError, APIError, OSError, TimeoutError)


class Credentials:
    """The hash of each user's password, by user id."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def hash_of(self, user_id: str) -> str | None:
        """The kept hash; None where the user has no password."""
        try:
            bucket = await self._bus.js.key_value(CREDENTIALS_BUCKET)
            entry = await bucket.get(user_id)
        except KeyNotFoundError:
            return None
        except _AWAY as error:
            raise BusUnavailableError("the password cannot be checked now; try again") from error
        return str(json.loads(entry.value or b"{}").get("hash")) if entry.value else None

    async def keep(self, user_id: str, password_hash: str) -> None:
        """Set a user's hash."""
        try:
            bucket = await self._bus.js.key_value(CREDENTIALS_BUCKET)
            await bucket.put(user_id, json.dumps({"hash": password_hash}).encode())
        except _AWAY as error:
            raise BusUnavailableError("the password was not kept; try again") from error

    async def forget(self, user_id: str) -> None:
        """Remove a user's hash."""
        try:
            bucket = await self._bus.js.key_value(CREDENTIALS_BUCKET)
            await bucket.delete(user_id)
        except _AWAY as error:
            raise BusUnavailableError("the password was not removed; try again") from error
