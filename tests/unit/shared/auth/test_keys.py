from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as generate_ec_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from shared.auth.keys import KeyFormatError, KeySet, SigningKey, key_id
from tests.support.certificates import self_signed


def test_a_signing_key_survives_its_text() -> None:
    key = SigningKey.generate()
    assert SigningKey.load(key.pem()).kid == key.kid


def test_a_key_set_survives_its_json() -> None:
    key = SigningKey.generate()
    loaded = KeySet.load(json.dumps(key.public().jwks()))
    assert list(loaded.keys) == [key.kid]


def test_the_published_set_has_no_private_part() -> None:
    (jwk,) = SigningKey.generate().public().jwks()["keys"]
    assert set(jwk) == {"kty", "crv", "alg", "use", "kid", "x"}


def test_the_id_is_the_thumbprint_of_rfc_8037() -> None:
    x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    jwks = {"keys": [{"kty": "OKP", "crv": "Ed25519", "x": x}]}
    (key,) = KeySet.load(json.dumps(jwks)).keys.values()
    assert key_id(key) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def test_other_kinds_of_keys_in_a_set_are_left_out() -> None:
    document = SigningKey.generate().public().jwks()
    document["keys"].append({"kty": "RSA", "n": "AQAB", "e": "AQAB"})
    assert len(KeySet.load(json.dumps(document)).keys) == 1


@pytest.mark.parametrize(
    "text",
    ["", "x", "[]", "{}", '{"keys": []}', '{"keys": 3}', '{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "AA"}]}'],
)
def test_what_is_no_key_set_is_refused(text: str) -> None:
    with pytest.raises(KeyFormatError):
        KeySet.load(text)


def test_a_key_of_another_kind_cannot_sign() -> None:
    pem = generate_ec_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    with pytest.raises(KeyFormatError, match="not Ed25519"):
        SigningKey.load(pem)
    with pytest.raises(KeyFormatError, match="PKCS 8"):
        SigningKey.load("nonsense")


def test_a_signing_key_is_not_printed() -> None:
    key = SigningKey.generate()
    assert repr(key) == f"SigningKey(kid={key.kid!r})"


def test_a_key_set_may_be_certificates_and_keys_of_other_kinds_are_left_out() -> None:
    old, new = SigningKey.generate(), SigningKey.generate()
    certified = [self_signed(key).public_bytes(Encoding.PEM).decode() for key in (old.private, new.private)]
    other = self_signed(generate_ec_key(SECP256R1())).public_bytes(Encoding.PEM).decode()
    assert set(KeySet.load("\n".join([*certified, other])).keys) == {old.kid, new.kid}


def test_a_torn_certificate_is_refused() -> None:
    with pytest.raises(KeyFormatError, match="no PEM certificates"):
        KeySet.load("-----BEGIN CERTIFICATE-----\nAAAA\n")
