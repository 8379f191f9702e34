"""The bucket of sealed values, by id of the secret: the submitter writes it, scheduler and watchdog read it, no other.

A value is plain only inside of these two methods and of whoever calls them: it is not logged, and errors do not hold
it. A service that was given no keys can do neither.
"""

from __future__ import annotations

from typing import Final

from nats.errors import Error as NatsError
from nats.js.errors import APIError, KeyNotFoundError

from shared.bus import Bus, BusUnavailableError
from shared.bus.streams import SECRETS_BUCKET
from shared.errors import UnavailableError
from shared.vault.keyring import Keyring

_AWAY: Final = (NatsError, APIError, OSError, TimeoutError)


class Vault:
    """Values of secrets."""

    def __init__(self, bus: Bus, keyring: Keyring | None) -> None:
        self._bus = bus
        self._keyring = keyring

    async def keep(self, secret_id: str, value: str) -> None:
        """Seal and store a value in place of the one before."""
        sealed = self._keys().seal(secret_id, value)
        try:
            bucket = await self._bus.js.key_value(SECRETS_BUCKET)
            await bucket.put(secret_id, sealed)
        except _AWAY as error:
            raise BusUnavailableError("the value of the secret was not kept; try again") from error

    async def reveal(self, secret_id: str) -> str | None:
        """The value; None where there is none. Raises SealError."""
        keys = self._keys()
        try:
            bucket = await self._bus.js.key_value(SECRETS_BUCKET)
            entry = await bucket.get(secret_id)
        except KeyNotFoundError:
            return None
        except _AWAY as error:
            raise BusUnavailableError("the value of the secret cannot be read now; try again") from error
        return keys.open(secret_id, entry.value) if entry.value else None

    async def forget(self, secret_id: str) -> None:
        """Remove a value."""
        try:
            bucket = await self._bus.js.key_value(SECRETS_BUCKET)
            await bucket.delete(secret_id)
        except _AWAY as error:
            raise BusUnavailableError("the value of the secret was not removed; try again") from error

    def _keys(self) -> Keyring:
        if self._keyring is None:
            raise UnavailableError("secrets cannot be used here: the platform was started without a file of their keys")
        return self._keyring
