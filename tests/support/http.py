"""Calling an application in the test's own loop, and an authenticator with two known tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from shared.auth.principal import Principal
from shared.errors import UnauthenticatedError
from shared.ids import UserId

ADA = Principal(UserId("u-ada"), "ada")
ROOT = Principal(UserId("u-root"), "root", admin=True)
_TOKENS = {"ada": ADA, "root": ROOT}


class KnownTokens:
    """Takes the tokens `ada` and `root`."""

    def authenticate(self, token: str) -> Principal:
        if token not in _TOKENS:
            raise UnauthenticatedError("the token is not valid")
        return _TOKENS[token]


@asynccontextmanager
async def calling(app: Any, user: str | None = "ada") -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application that sends the user's token."""
    headers = {"Authorization": f"Bearer {user}"} if user else {}
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as client:
        yield client
