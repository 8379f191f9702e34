from __future__ import annotations

import asyncio
import threading
from typing import Any

import argon2
import pytest

from shared.auth.passwords import Passwords


async def test_the_right_password_is_told_from_a_wrong_one() -> None:
    passwords = Passwords()
    kept = await passwords.hash("correct horse 电池")
    assert await passwords.verify(kept, "correct horse 电池")
    assert not await passwords.verify(kept, "correct horse")


async def test_two_hashes_of_one_password_differ_and_are_argon2id() -> None:
    passwords = Passwords()
    hashes = {await passwords.hash("x"), await passwords.hash("x")}
    assert len(hashes) == 2
    assert all(kept.startswith("$argon2id$v=19$m=19456,t=2,p=1$") for kept in hashes)


async def test_a_user_who_does_not_exist_costs_a_hash_too(monkeypatch: pytest.MonkeyPatch) -> None:
    passwords, checked = Passwords(), []
    original = argon2.PasswordHasher.verify

    def counting(self: argon2.PasswordHasher, kept: Any, password: Any) -> Any:
        checked.append(kept)
        return original(self, kept, password)

    monkeypatch.setattr(argon2.PasswordHasher, "verify", counting)
    assert not await passwords.verify(None, "x")
    assert not await passwords.verify(None, "nobody has this password")
    assert len(checked) == 2


@pytest.mark.parametrize("kept", ["", "plain", "$argon2id$broken", "$2b$12$abc"])
async def test_a_hash_that_cannot_be_read_matches_nothing(kept: str) -> None:
    assert not await Passwords().verify(kept, "x")


async def test_a_password_of_absurd_length_is_not_even_hashed() -> None:
    assert not await Passwords().verify(None, "x" * 1_000_000)


async def test_many_logins_at_once_are_hashed_one_after_the_other_in_one_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: set[int] = set()

    def noticing(_self: argon2.PasswordHasher, _password: str) -> str:
        threads.add(threading.get_ident())
        return "hash"

    monkeypatch.setattr(argon2.PasswordHasher, "hash", noticing)
    passwords = Passwords()
    await asyncio.gather(*(passwords.hash("x") for _ in range(10)))
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_a_hash_made_with_other_settings_is_outdated() -> None:
    passwords = Passwords()
    assert passwords.outdated(argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("x"))
    assert not passwords.outdated(await passwords.hash("x"))
