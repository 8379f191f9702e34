"""Tokens: JWTs signed with Ed25519, issued by the submitter and verified in every service.

A verifier accepts one algorithm (EdDSA), keys that it knows by id, one issuer and one audience; all claims that it
reads must be there and have their type. Time comes from the service's clock, so tests need not wait for an expiry.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import jwt

from shared.auth.keys import KeySet, SigningKey
from shared.auth.principal import Principal
from shared.clock import Clock
from shared.errors import UnauthenticatedError
from shared.ids import UserId

ALGORITHM: Final = "EdDSA"
ISSUER: Final = "trainmaster"
AUDIENCE: Final = "trainmaster-api"
LIFETIME: Final = timedelta(hours=24)
CLOCK_SKEW: Final = timedelta(seconds=30)
MAX_TOKEN_CHARS: Final = 4096
_CLAIMS: Final = ("iss", "aud", "sub", "exp", "iat", "jti")


@dataclass(frozen=True, slots=True)
class Claims:
    """What a valid token says."""

    principal: Principal
    token_id: str
    issued_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token for its owner, and what it says."""

    token: str
    claims: Claims


@dataclass(frozen=True, slots=True)
class TokenIssuer:
    """Makes tokens; the submitter has the only one."""

    key: SigningKey
    clock: Clock
    lifetime: timedelta = LIFETIME

    def issue(self, principal: Principal) -> IssuedToken:
        """A token that says who its bearer is, until it expires."""
        now = self.clock.now()
        claims = Claims(principal, uuid.uuid4().hex, now, now + self.lifetime)
        payload = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": principal.user_id,
            "name": principal.name,
            "admin": principal.admin,
            "jti": claims.token_id,
            "iat": now.timestamp(),
            "exp": claims.expires_at.timestamp(),
        }
        token = jwt.encode(payload, self.key.private, ALGORITHM, headers={"kid": self.key.kid})
        return IssuedToken(token, claims)


@dataclass(frozen=True, slots=True)
class TokenVerifier:
    """Tells whose token it is."""

    keys: KeySet
    clock: Clock

    def verify(self, token: str) -> Claims:
        """The claims of a valid token; raises UnauthenticatedError with the reason."""
        if len(token) > MAX_TOKEN_CHARS:
            raise UnauthenticatedError(f"the token is longer than {MAX_TOKEN_CHARS} characters")
        claims = _claims_of(self._payload(token))
        now = self.clock.now()
        if now >= claims.expires_at:
            raise UnauthenticatedError("the token has expired; log in again")
        if claims.issued_at > now + CLOCK_SKEW:
            raise UnauthenticatedError("the token comes from the future; check the clocks of client and platform")
        return claims

    def _payload(self, token: str) -> dict[str, Any]:
        try:
            kid = jwt.get_unverified_header(token).get("kid")
            key = self.keys.keys.get(kid) if isinstance(kid, str) else None
            if key is None:
                raise UnauthenticatedError("the token is signed with a key that is not known here; log in again")
            return jwt.decode(
                token,
                key,
                algorithms=[ALGORITHM],
                issuer=ISSUER,
                audience=AUDIENCE,
                # Times are checked against our own clock.
                options={"require": list(_CLAIMS), "verify_exp": False, "verify_iat": False, "verify_nbf": False},
            )
        except (jwt.PyJWTError, ValueError) as error:
            raise UnauthenticatedError(f"the token is not valid: {error}") from None


def _claims_of(payload: dict[str, Any]) -> Claims:
    name, admin = payload.get("name"), payload.get("admin", False)
    if not (isinstance(name, str) and isinstance(admin, bool) and isinstance(payload["sub"], str)):
        raise UnauthenticatedError("the token is not valid: name, admin or sub has a wrong type")
    try:
        issued_at, expires_at = (datetime.fromtimestamp(payload[claim], UTC) for claim in ("iat", "exp"))
    except (TypeError, ValueError, OverflowError, OSError):
        raise UnauthenticatedError("the token is not valid: iat or exp is no time") from None
    principal = Principal(UserId(payload["sub"]), name, admin)
    return Claims(principal, str(payload["jti"]), issued_at, expires_at)
