from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

import click
import pytest

from tests.support.fake_platform import FakePlatform, of_json, problem
from trainmaster.cli import main
from trainmaster.errors import ExitCode


def test_help_names_every_command_once_under_its_section(command: Callable[..., Any]) -> None:
    text = command("--help").out
    for name in (*main.COMMANDS, *main.PLUGINS):
        assert len([line for line in text.splitlines() if line.split()[:1] == [name]]) == 1
    assert text.index("Jobs:") < text.index("apply") < text.index("Everything else") < text.index("get ")


@pytest.mark.parametrize("name", main.COMMANDS)
def test_the_table_says_what_the_command_says_itself(name: str) -> None:
    found = importlib.import_module(f"trainmaster.cli.{name}").command
    assert found.name == name
    assert found.help is not None
    assert found.help.split("\n\n")[0] == main.COMMANDS[name].help


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_command_has_help(command: Callable[..., Any], name: str) -> None:
    outcome = command(name, "--help")
    assert outcome.code == 0
    assert f"trainmaster {name}" in outcome.out


def test_an_unknown_command_is_a_usage_error(command: Callable[..., Any]) -> None:
    assert command("aply").code == ExitCode.INVALID


class TestPlugins:
    def test_where_the_platform_is_not_installed_up_says_what_would_help(
        self, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
        outcome = command("up", "--nodes", "4")
        assert outcome.code == ExitCode.INVALID
        assert "comes with the platform" in outcome.err

    def test_a_command_of_another_distribution_is_run(
        self, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        entry_point = EntryPoint("down", f"{__name__}:plugin", main.PLUGIN_GROUP)
        monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: (entry_point,))
        assert command("down").out == "from elsewhere\n"


@click.command("plugin")
def plugin() -> None:
    click.echo("from elsewhere")


class TestFailures:
    def test_who_is_not_logged_in_is_told_how_to(self, command: Callable[..., Any]) -> None:
        outcome = command("get", "jobs")
        assert (outcome.code, outcome.out) == (ExitCode.AUTH, "")
        assert "trainmaster login" in outcome.err

    @pytest.mark.parametrize(
        ("status", "code"),
        [
            (400, ExitCode.INVALID),
            (401, ExitCode.AUTH),
            (403, ExitCode.AUTH),
            (404, ExitCode.NOT_FOUND),
            (409, ExitCode.CONFLICT),
            (422, ExitCode.INVALID),
            (429, ExitCode.UNREACHABLE),
            (500, ExitCode.UNEXPECTED),
        ],
    )
    def test_the_exit_code_says_what_kind_of_refusal_it_was(
        self, command: Callable[..., Any], api: FakePlatform, status: int, code: ExitCode
    ) -> None:
        api.on("GET", "/v1/jobs/mnist", problem(status, "some-code", "what is wrong"))
        outcome = command("describe", "mnist")
        assert outcome.code == code
        assert outcome.err == f"error: what is wrong\n  some-code, HTTP {status}, request req-1\n"

    def test_violations_of_a_query_are_listed(self, command: Callable[..., Any], api: FakePlatform) -> None:
        wrong = ("/query/state", "not-a-choice", "'Walking' is no state")
        api.on("GET", "/v1/jobs", problem(422, "invalid-input", "2 things are wrong", wrong))
        assert "/query/state: 'Walking' is no state [not-a-choice]" in command("get", "jobs", "--state", "Walking").err

    def test_what_the_list_says_is_not_said_twice(self, command: Callable[..., Any], api: FakePlatform) -> None:
        wrong = ("/query/state", "not-a-choice", "'Walking' is no state")
        api.on("GET", "/v1/jobs", problem(422, "invalid-input", "/query/state: 'Walking' is no state", wrong))
        assert command("get", "jobs", "--state", "Walking").err.count("'Walking' is no state") == 1

    def test_where_nothing_listens(self, command: Callable[..., Any], api: FakePlatform) -> None:
        api.stop()
        outcome = command("get", "jobs")
        assert outcome.code == ExitCode.UNREACHABLE
        assert "nothing answers at" in outcome.err

    def test_a_page_of_something_else_is_told_as_such(self, command: Callable[..., Any], api: FakePlatform) -> None:
        api.on("GET", "/v1/jobs", of_json([1]))
        assert command("get", "jobs").code == ExitCode.UNEXPECTED

    def test_an_error_that_nobody_foresaw_is_one_line(
        self, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("trainmaster.cli.version.platform.python_version", lambda: 1 / 0)
        outcome = command("version")
        assert outcome.code == ExitCode.UNEXPECTED
        assert outcome.err == "error: ZeroDivisionError: division by zero (TRAINMASTER_DEBUG=1 shows where)\n"

    def test_text_from_the_platform_cannot_steer_the_terminal(
        self, command: Callable[..., Any], api: FakePlatform
    ) -> None:
        api.on("GET", "/v1/jobs/x", problem(404, "not-found", "\x1b]0;owned\x07"))
        assert "\x1b" not in command("describe", "x").err


def test_version_is_printed_in_every_form(command: Callable[..., Any]) -> None:
    assert command("version").out.startswith("trainmaster 0.")
    assert set(command("version", "-o", "json").json) == {"version", "python"}
    assert command("version", "-o", "yaml").out.startswith("version:")
