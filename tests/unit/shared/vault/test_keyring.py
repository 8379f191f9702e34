"""Sealed values: opened only with the right key, at the right place, and never by accident."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.vault import Keyring, SealError

VALUE = "correct horse battery staple"


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_what_is_sealed_is_opened_again(value: str) -> None:
    keys = Keyring.generate()
    assert keys.open("sec-a", keys.seal("sec-a", value)) == value


def test_the_same_value_never_looks_the_same_and_is_not_to_be_seen() -> None:
    keys = Keyring.generate()
    one, other = keys.seal("sec-a", VALUE), keys.seal("sec-a", VALUE)
    assert one != other
    assert VALUE.encode() not in one
    assert VALUE not in repr(keys)


def test_an_envelope_is_good_for_its_own_secret_only() -> None:
    keys = Keyring.generate()
    with pytest.raises(SealError, match="damaged"):
        keys.open("sec-b", keys.seal("sec-a", VALUE))


@pytest.mark.parametrize("field", ["nonce", "ciphertext"])
def test_a_changed_envelope_is_refused(field: str) -> None:
    keys = Keyring.generate()
    sealed = json.loads(keys.seal("sec-a", VALUE))
    sealed[field] = sealed[field][1:] + "A"
    with pytest.raises(SealError, match="damaged"):
        keys.open("sec-a", json.dumps(sealed).encode())


def test_old_keys_open_what_they_sealed_and_the_new_one_seals() -> None:
    old = Keyring.generate()
    new = old.rotated()
    sealed = old.seal("sec-a", VALUE)
    assert new.open("sec-a", sealed) == VALUE
    assert json.loads(new.seal("sec-a", VALUE))["key"] == new.current != old.current
    with pytest.raises(SealError, match="not in the key file"):
        old.open("sec-a", new.seal("sec-a", VALUE))


def test_the_key_file_is_read_back() -> None:
    keys = Keyring.generate()
    assert Keyring.load(keys.text()).open("sec-a", keys.seal("sec-a", VALUE)) == VALUE


@pytest.mark.parametrize(
    "text", ["", "{}", '{"current": "k-1", "keys": {}}', '{"current": "k-1", "keys": {"k-1": "topsecret"}}']
)
def test_a_damaged_key_file_is_told_without_its_content(text: str) -> None:
    with pytest.raises(SealError) as caught:
        Keyring.load(text)
    assert "topsecret" not in str(caught.value)
    assert caught.value.__cause__ is None
