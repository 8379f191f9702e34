from __future__ import annotations

import pytest

from shared.auth.authenticator import TokenAuthenticator
from shared.auth.keys import SigningKey
from shared.auth.principal import Principal
from shared.auth.revocations import RevocationTable
from shared.auth.tokens import TokenIssuer, TokenVerifier
from shared.clock import ManualClock, rfc3339
from shared.errors import UnauthenticatedError
from shared.ids import UserId

ADA = Principal(UserId("u-ada"), "ada")
KEY = SigningKey.generate()


async def test_a_valid_token_gives_its_principal_until_it_is_revoked() -> None:
    clock, table = ManualClock(), RevocationTable()
    issued = TokenIssuer(KEY, clock).issue(ADA)
    authenticator = TokenAuthenticator(TokenVerifier(KEY.public(), clock), table)
    assert authenticator.authenticate(issued.token) == ADA
    table.apply(f"token.{issued.claims.token_id}", rfc3339(clock.now()).encode())
    with pytest.raises(UnauthenticatedError, match="revoked"):
        authenticator.authenticate(issued.token)
