"""Running the command in this process, as a user who is logged in to a scripted platform."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.fake_platform import FakePlatform
from trainmaster.cli.main import run


@dataclass(frozen=True)
class Outcome:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Outcome]


@pytest.fixture
def command(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Command:
    def run_command(*arguments: str, stdin: str = "") -> Outcome:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = run(arguments)
        out, err = capfdbinary.readouterr()
        return Outcome(int(code), out.decode(errors="surrogateescape"), err.decode())

    return run_command


@pytest.fixture
def api(logged_in: FakePlatform) -> FakePlatform:
    return logged_in
