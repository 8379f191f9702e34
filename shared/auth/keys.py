"""Ed25519 keys: the one that signs tokens, and the set of those that others verify with (JWKS, RFC 8037).

A key's id is its RFC 7638 thumbprint, so that it needs no bookkeeping: a set that holds an old
key and a new one is how keys are changed. A set may also be given as PEM certificates one after the other, which tools
that can make a certificate but no JWKS write; nothing but the keys in them is looked at.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509 import load_pem_x509_certificates

from shared.errors import TrainmasterError

_CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"


class KeyFormatError(TrainmasterError):
    """The text is no Ed25519 key or key set."""

    code = "bad-key"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The private half; only the submitter holds one."""

    private: Ed25519PrivateKey

    @classmethod
    def generate(cls) -> SigningKey:
        """A new random key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, pem: str) -> SigningKey:
        """The key in a PKCS 8 PEM text."""
        try:
            private = load_pem_private_key(pem.encode(), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise KeyFormatError("the signing key is no PKCS 8 PEM text without a password") from None
        if not isinstance(private, Ed25519PrivateKey):
            raise KeyFormatError("the signing key is not Ed25519")
        return cls(private)

    def pem(self) -> str:
        """The text that `load` takes; keep it secret."""
        return self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    @property
    def kid(self) -> str:
        """Id of the key."""
        return key_id(self.private.public_key())

    def public(self) -> KeySet:
        """The set with the public half alone."""
        return KeySet({self.kid: self.private.public_key()})

    def __repr__(self) -> str:
        return f"SigningKey(kid={self.kid!r})"


@dataclass(frozen=True, slots=True)
class KeySet:
    """Public keys by id."""

    keys: Mapping[str, Ed25519PublicKey]

    def jwks(self) -> dict[str, Any]:
        """The JSON Web Key Set to publish."""
        return {"keys": [_jwk(kid, key) for kid, key in self.keys.items()]}

    @classmethod
    def load(cls, text: str) -> KeySet:
        """The Ed25519 keys of a JSON Web Key Set, or of PEM certificates; without any it is an error."""
        if text.lstrip().startswith(_CERTIFICATE):
            return cls.of(_certified_keys(text))
        try:
            found = json.loads(text)["keys"]
            keys = [_public_key(jwk) for jwk in found if jwk.get("kty") == "OKP" and jwk.get("crv") == "Ed25519"]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise KeyFormatError("this is no JSON Web Key Set") from None
        return cls.of(keys)

    @classmethod
    def of(cls, keys: Iterable[Ed25519PublicKey]) -> KeySet:
        """The set of these keys."""
        by_id = {key_id(key): key for key in keys}
        if not by_id:
            raise KeyFormatError("the key set has no Ed25519 key")
        return cls(by_id)


def key_id(key: Ed25519PublicKey) -> str:
    """RFC 7638 thumbprint."""
    members = {"crv": "Ed25519", "kty": "OKP", "x": _x(key)}
    return _base64url(hashlib.sha256(json.dumps(members, separators=(",", ":")).encode()).digest())


def _jwk(kid: str, key: Ed25519PublicKey) -> dict[str, str]:
    return {"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": kid, "x": _x(key)}


def _public_key(jwk: Mapping[str, str]) -> Ed25519PublicKey:
    x = jwk["x"]
    return Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(x + "=" * (-len(x) % 4)))


def _certified_keys(pem: str) -> list[Ed25519PublicKey]:
    try:
        keys = [certificate.public_key() for certificate in load_pem_x509_certificates(pem.encode())]
    except (ValueError, UnsupportedAlgorithm):
        raise KeyFormatError("these are no PEM certificates") from None
    return [key for key in keys if isinstance(key, Ed25519PublicKey)]


def _x(key: Ed25519PublicKey) -> str:
    return _base64url(key.public_bytes(Encoding.Raw, PublicFormat.Raw))


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
