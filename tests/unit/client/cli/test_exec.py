"""`trainmaster exec`."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from tests.support.fake_platform import FakePlatform, of_events, problem
from trainmaster.errors import ExitCode

Command = Callable[..., Any]
PATH = "/v1/sandboxes/mnist/exec"


def wrote(stream: str, data: bytes) -> tuple[None, str, dict[str, str]]:
    return None, stream, {"data": base64.b64encode(data).decode()}


def test_bytes_are_printed_as_they_are_and_the_code_is_the_commands(command: Command, api: FakePlatform) -> None:
    end = (None, "exit", {"code": 9, "message": ""})
    api.on("POST", PATH, of_events(wrote("stdout", b"a\xff"), wrote("stderr", b"oh\n"), wrote("stdout", b"b\n"), end))
    outcome = command("exec", "mnist", "--role", "ps", "--index", "1", "--timeout", "5", "--", "ls", "-l", "--all")
    assert (outcome.code, outcome.out, outcome.err) == (9, b"a\xffb\n".decode(errors="surrogateescape"), "oh\n")
    sent = api.asked("POST", PATH)[0].json
    assert sent == {"command": ["ls", "-l", "--all"], "role": "ps", "index": 1, "timeout": 5.0}


def test_a_command_whose_time_is_over_is_told(command: Command, api: FakePlatform) -> None:
    api.on("POST", PATH, of_events((None, "exit", {"code": 124, "message": "the command was ended after 5 s"})))
    outcome = command("exec", "mnist", "--", "sleep", "9")
    assert (outcome.code, outcome.err) == (124, "the command was ended after 5 s\n")


def test_a_refusal_says_why(command: Command, api: FakePlatform) -> None:
    api.on("POST", PATH, problem(409, "conflict", "replica worker-0 does not run now"))
    outcome = command("exec", "mnist", "--", "true")
    assert outcome.code == ExitCode.CONFLICT
    assert "does not run now" in outcome.err


def test_a_stream_that_breaks_off_is_no_success(command: Command, api: FakePlatform) -> None:
    api.on("POST", PATH, of_events(wrote("stdout", b"x\n")))
    outcome = command("exec", "mnist", "--", "true")
    assert outcome.code == ExitCode.UNREACHABLE
    assert "before the command had ended" in outcome.err


def test_a_command_is_needed(command: Command, api: FakePlatform) -> None:
    assert command("exec", "mnist").code == ExitCode.INVALID
    assert api.requests == []
