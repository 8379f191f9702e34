"""`trainmaster password`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_platform import FakePlatform, of_json, problem
from trainmaster.errors import ExitCode

Command = Callable[..., Any]


@pytest.fixture
def changing(command: Command, platform: FakePlatform) -> FakePlatform:
    """A platform that takes a new password, and a login of the user at it."""
    platform.on("POST", "/v1/auth/login", of_json({"token": "old-token"}))
    platform.on("GET", "/v1/auth/me", of_json({"id": "u-1", "name": "ada", "admin": False, "groups": []}))
    platform.on("PUT", "/v1/auth/password", of_json({"token": "new-token"}))
    command("login", "-u", "ada", "-p", "pass", "-e", platform.url)
    return platform


def stored() -> dict[str, str]:
    login: dict[str, str] = json.loads(Path(os.environ["TRAINMASTER_CONFIG"]).read_text())
    return login


def test_the_password_is_changed_and_the_new_token_kept(command: Command, changing: FakePlatform) -> None:
    outcome = command("password", stdin="the old one\nthe new one\n")
    assert outcome.code == 0
    assert changing.requests[-1].json == {"current": "the old one", "new": "the new one"}
    assert changing.requests[-1].headers["Authorization"] == "Bearer old-token"
    assert stored() == {"url": changing.url, "username": "ada", "token": "new-token"}
    assert "new one" not in outcome.out + outcome.err


def test_a_token_of_the_environment_is_not_replaced(
    command: Command, changing: FakePlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINMASTER_TOKEN", "another")
    outcome = command("password", stdin="a\nb\n")
    assert "TRAINMASTER_TOKEN is not good any more" in outcome.err
    assert stored()["token"] == "old-token"


@pytest.mark.parametrize("given", ["", "one\n", "one\n\n", "one\ntwo\nthree\n"])
def test_one_password_or_three_are_refused_before_anything_is_sent(
    command: Command, changing: FakePlatform, given: str
) -> None:
    assert command("password", stdin=given).code == ExitCode.INVALID
    assert not changing.asked("PUT", "/v1/auth/password")


def test_a_wrong_password_leaves_the_login(command: Command, changing: FakePlatform) -> None:
    wrong = ("/current", "wrong-password", "this is not your present password")
    changing.on("PUT", "/v1/auth/password", problem(422, "invalid-input", "one thing is wrong", wrong))
    outcome = command("password", stdin="a\nb\n")
    assert (outcome.code, stored()["token"]) == (ExitCode.INVALID, "old-token")
    assert "this is not your present password" in outcome.err
