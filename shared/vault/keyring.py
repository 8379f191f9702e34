"""Keys that seal the values of secrets: AES-256-GCM, with the id of the secret as associated data.

The key file holds any number of keys by id and says which of them seals; an envelope names the key that it was sealed
with. So a key is replaced by adding one and making it the current one: what was sealed before is still opened, and is
sealed anew when its value is next applied. The associated data ties an envelope to its secret: one that was copied to
another secret's place cannot be opened there.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
from typing import Final, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from shared.errors import TrainmasterError

_KEY_BITS: Final = 256
_NONCE_BYTES: Final = 12


class SealError(TrainmasterError):
    """A key file or an envelope cannot be used; the message never holds what is in it."""

    code = "secret-unreadable"


class Envelope(BaseModel):
    """A sealed value as it is stored; bytes are base64."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    key: str
    nonce: str
    ciphertext: str


class Keyring(BaseModel):
    """Content of the key file."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    current: str
    keys: dict[str, str] = Field(repr=False)

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if self.current not in self.keys:
            raise ValueError("the current key is not among the keys")
        for key in self.keys:
            self._cipher(key)
        return self

    @classmethod
    def generate(cls) -> Self:
        """A ring of one new key."""
        key_id = _new_id()
        return cls(current=key_id, keys={key_id: _new_key()})

    @classmethod
    def load(cls, text: str) -> Self:
        """The ring in a key file; raises SealError."""
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            raise SealError("the file with the keys of secrets is damaged; restore it from a backup") from None

    def rotated(self) -> Self:
        """The ring with a new current key; the old ones still open what they sealed."""
        key_id = _new_id()
        return type(self)(current=key_id, keys={**self.keys, key_id: _new_key()})

    def seal(self, secret_id: str, value: str) -> bytes:
        """The envelope of a value."""
        nonce = os.urandom(_NONCE_BYTES)
        ciphertext = self._cipher(self.current).encrypt(nonce, value.encode(), secret_id.encode())
        return Envelope(key=self.current, nonce=_text(nonce), ciphertext=_text(ciphertext)).model_dump_json().encode()

    def open(self, secret_id: str, envelope: bytes) -> str:
        """The value in an envelope; raises SealError."""
        try:
            sealed = Envelope.model_validate_json(envelope)
            nonce, ciphertext = base64.b64decode(sealed.nonce), base64.b64decode(sealed.ciphertext)
            return self._cipher(sealed.key).decrypt(nonce, ciphertext, secret_id.encode()).decode()
        except KeyError:
            raise SealError("it was sealed with a key that is not in the key file any more; apply it again") from None
        except (ValueError, InvalidTag):  # pydantic's ValidationError is a ValueError
            raise SealError("what is stored of it is damaged; apply it again") from None

    def text(self) -> str:
        """What the key file holds."""
        return json.dumps(self.model_dump(), indent=2) + "\n"

    def _cipher(self, key: str) -> AESGCM:
        return AESGCM(base64.b64decode(self.keys[key], validate=True))


def _new_id() -> str:
    return f"k-{secrets.token_hex(4)}"


def _new_key() -> str:
    return _text(AESGCM.generate_key(_KEY_BITS))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
