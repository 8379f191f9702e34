from __future__ import annotations

import base64
import json
from datetime import timedelta
from typing import Any

import jwt
import pytest

from shared.auth.keys import KeySet, SigningKey
from shared.auth.principal import Principal
from shared.auth.tokens import AUDIENCE, ISSUER, LIFETIME, TokenIssuer, TokenVerifier
from shared.clock import ManualClock
from shared.errors import UnauthenticatedError
from shared.ids import UserId

ADA = Principal(UserId("u-ada"), "Ada 爱达", admin=True)
KEY = SigningKey.generate()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def verifier(clock: ManualClock, keys: KeySet | None = None) -> TokenVerifier:
    return TokenVerifier(keys or KEY.public(), clock)


def forged(clock: ManualClock, *, key: Any = None, algorithm: str = "EdDSA", kid: Any = KEY.kid, **changes: Any) -> str:
    now = clock.now().timestamp()
    payload = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "u-ada",
        "name": "ada",
        "jti": "1",
        "iat": now,
        "exp": now + 60,
    }
    payload |= changes
    payload = {claim: value for claim, value in payload.items() if value is not None}
    return jwt.encode(payload, KEY.private if key is None else key, algorithm, headers={"kid": kid})


def test_a_token_says_whose_it_is(clock: ManualClock) -> None:
    issued = TokenIssuer(KEY, clock).issue(ADA)
    claims = verifier(clock).verify(issued.token)
    assert claims == issued.claims
    assert claims.principal == ADA
    assert claims.expires_at == clock.now() + LIFETIME


def test_every_token_has_an_id_of_its_own(clock: ManualClock) -> None:
    issuer = TokenIssuer(KEY, clock)
    assert issuer.issue(ADA).claims.token_id != issuer.issue(ADA).claims.token_id


async def test_a_token_is_good_until_it_expires(clock: ManualClock) -> None:
    token = TokenIssuer(KEY, clock, lifetime=timedelta(seconds=60)).issue(ADA).token
    await clock.advance(59)
    verifier(clock).verify(token)
    await clock.advance(1)
    with pytest.raises(UnauthenticatedError, match="expired"):
        verifier(clock).verify(token)


def test_a_forged_token_with_the_right_key_would_do(clock: ManualClock) -> None:
    assert verifier(clock).verify(forged(clock)).principal.name == "ada"


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "somebody"},
        {"aud": "another-api"},
        {"aud": None},
        {"exp": None},
        {"iat": None},
        {"jti": None},
        {"sub": None},
        {"iss": None},
        {"name": None},
        {"name": 3},
        {"admin": "yes"},
        {"admin": 1},
        {"exp": "soon"},
        {"exp": 1e300},
        {"iat": [1]},
    ],
)
def test_a_claim_that_is_missing_or_wrong_is_refused(clock: ManualClock, changes: dict[str, Any]) -> None:
    with pytest.raises(UnauthenticatedError):
        verifier(clock).verify(forged(clock, **changes))


def test_a_token_from_the_future_is_refused(clock: ManualClock) -> None:
    with pytest.raises(UnauthenticatedError, match="future"):
        verifier(clock).verify(forged(clock, iat=clock.now().timestamp() + 31))


@pytest.mark.parametrize("kid", ["another", None, 3])
def test_a_key_that_is_not_known_by_its_id_is_refused(clock: ManualClock, kid: Any) -> None:
    token = TokenIssuer(SigningKey.generate(), clock).issue(ADA).token
    with pytest.raises(UnauthenticatedError, match="not known"):
        verifier(clock).verify(token)
    _, payload, signature = forged(clock).split(".")
    other = base64.urlsafe_b64encode(json.dumps({"alg": "EdDSA", "kid": kid}).encode()).decode().rstrip("=")
    with pytest.raises(UnauthenticatedError):
        verifier(clock).verify(f"{other}.{payload}.{signature}")


def test_a_foreign_key_under_a_known_id_is_refused(clock: ManualClock) -> None:
    with pytest.raises(UnauthenticatedError):
        verifier(clock).verify(forged(clock, key=SigningKey.generate().private))


def test_other_algorithms_are_refused_also_with_the_public_key_as_secret(clock: ManualClock) -> None:
    secret = KEY.public().jwks()["keys"][0]["x"]
    with pytest.raises(UnauthenticatedError):
        verifier(clock).verify(forged(clock, key=secret, algorithm="HS256"))
    with pytest.raises(UnauthenticatedError):
        verifier(clock).verify(forged(clock, key="", algorithm="none"))


@pytest.mark.parametrize("token", ["", ".", "..", "a.b.c", "x" * 5000, "é.é.é", "a b"])
def test_what_is_no_token_is_refused(clock: ManualClock, token: str) -> None:
    with pytest.raises(UnauthenticatedError):
        verifier(clock).verify(token)


def test_a_changed_payload_is_refused(clock: ManualClock) -> None:
    header, _, signature = forged(clock).split(".")
    payload = forged(clock, admin=True).split(".")[1]
    with pytest.raises(UnauthenticatedError):
        verifier(clock).verify(f"{header}.{payload}.{signature}")


def test_old_and_new_key_stand_side_by_side_while_keys_change(clock: ManualClock) -> None:
    new = SigningKey.generate()
    both = KeySet({**KEY.public().keys, **new.public().keys})
    for key in (KEY, new):
        assert verifier(clock, both).verify(TokenIssuer(key, clock).issue(ADA).token).principal == ADA
