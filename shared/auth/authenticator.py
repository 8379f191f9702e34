"""From a bearer token to a principal: the signature says who, the revocations say whether still."""

from __future__ import annotations

from dataclasses import dataclass

from shared.auth.principal import Principal
from shared.auth.revocations import Revocations
from shared.auth.tokens import TokenVerifier
from shared.errors import UnauthenticatedError


@dataclass(frozen=True, slots=True)
class TokenAuthenticator:
    """What `create_app` takes as `auth`."""

    verifier: TokenVerifier
    revocations: Revocations

    def authenticate(self, token: str) -> Principal:
        """The principal of a valid token that nobody revoked."""
        claims = self.verifier.verify(token)
        if self.revocations.revoked(claims):
            raise UnauthenticatedError("the token was revoked; log in again")
        return claims.principal
