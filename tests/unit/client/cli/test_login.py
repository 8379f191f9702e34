from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_platform import FakePlatform, of_json, problem
from trainmaster.errors import ExitCode


@pytest.fixture
def accepting(platform: FakePlatform) -> FakePlatform:
    platform.on("POST", "/v1/auth/login", of_json({"token": "secret-token", "expiresAt": "2030-01-01T00:00:00Z"}))
    return platform


def stored() -> dict[str, str]:
    login: dict[str, str] = json.loads(Path(os.environ["TRAINMASTER_CONFIG"]).read_text())
    return login


def test_the_token_is_kept_for_the_owner_only_and_never_printed(
    command: Callable[..., Any], accepting: FakePlatform
) -> None:
    outcome = command("login", "-u", "ada", "-p", "pass", "-e", accepting.url)
    assert outcome.code == 0
    assert "secret-token" not in outcome.out + outcome.err
    assert stored() == {"url": accepting.url, "username": "ada", "token": "secret-token"}
    assert stat.S_IMODE(Path(os.environ["TRAINMASTER_CONFIG"]).stat().st_mode) == 0o600


def test_long_options_mean_the_same(command: Callable[..., Any], accepting: FakePlatform) -> None:
    arguments = ("--username", "ada", "--password", "pass", "--url", accepting.url + "/")
    assert command("login", *arguments).code == 0
    assert accepting.requests[0].json == {"username": "ada", "password": "pass"}
    assert stored()["url"] == accepting.url


def test_what_is_left_out_is_read_from_standard_input(command: Callable[..., Any], accepting: FakePlatform) -> None:
    assert command("login", "-e", accepting.url, stdin="ada\np a s s\r\n").code == 0
    assert accepting.requests[0].json == {"username": "ada", "password": "p a s s"}


def test_no_password_at_all_is_an_error(command: Callable[..., Any], accepting: FakePlatform) -> None:
    outcome = command("login", "-u", "ada", "-e", accepting.url)
    assert outcome.code == ExitCode.INVALID
    assert "--password" in outcome.err


def test_the_address_of_the_last_login_is_remembered(command: Callable[..., Any], accepting: FakePlatform) -> None:
    command("login", "-u", "ada", "-p", "pass", "-e", accepting.url)
    assert command("login", "-u", "eve", "-p", "pass").code == 0
    assert stored()["username"] == "eve"


def test_a_damaged_file_is_written_anew(command: Callable[..., Any], accepting: FakePlatform) -> None:
    path = Path(os.environ["TRAINMASTER_CONFIG"])
    path.parent.mkdir()
    path.write_text("{")
    assert command("login", "-u", "ada", "-p", "pass", "-e", accepting.url).code == 0


def test_a_wrong_password_leaves_the_old_login(command: Callable[..., Any], accepting: FakePlatform) -> None:
    command("login", "-u", "ada", "-p", "pass", "-e", accepting.url)
    accepting.on("POST", "/v1/auth/login", problem(401, "unauthenticated", "wrong name or password"))
    assert command("login", "-u", "ada", "-p", "wrong").code == ExitCode.AUTH
    assert stored()["token"] == "secret-token"


def test_an_address_that_is_none_is_a_usage_error(command: Callable[..., Any]) -> None:
    assert command("login", "-u", "ada", "-p", "pass", "-e", "localhost:8080").code == ExitCode.INVALID


def test_commands_use_what_login_stored(command: Callable[..., Any], accepting: FakePlatform) -> None:
    command("login", "-u", "ada", "-p", "pass", "-e", accepting.url)
    accepting.on("GET", "/v1/pools", of_json({"items": [], "next": None}))
    assert command("get", "pools").code == 0
    assert accepting.requests[-1].headers["Authorization"] == "Bearer secret-token"
