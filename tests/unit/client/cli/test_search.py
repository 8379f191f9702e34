"""`trainmaster search`, and `logs` with lines by time, searches and files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_platform import Answer, FakePlatform, of_json
from trainmaster.errors import ExitCode

Command = Callable[..., Any]
LINE = {"role": "worker", "index": 0, "offset": 7, "time": "2026-01-01T00:00:00.000Z", "text": "a \x1b[2Jneedle"}


@pytest.fixture
def found(api: FakePlatform) -> FakePlatform:
    """A platform whose search finds one line and stops at its limit."""
    match = json.dumps({**LINE, "job": "tj-a", "attempt": 2})
    end = json.dumps({"matches": 1, "searched_bytes": 10, "complete": False, "next": "c1"})
    body = f"id: c1\nevent: match\ndata: {match}\n\nevent: end\ndata: {end}\n\n".encode()
    api.on("GET", "/v1/log-search", Answer(200, body, {"Content-Type": "text/event-stream"}))
    return api


@pytest.fixture
def nothing(api: FakePlatform) -> FakePlatform:
    end = json.dumps({"matches": 0, "searched_bytes": 10, "complete": True, "next": None})
    body = f"event: end\ndata: {end}\n\n".encode()
    api.on("GET", "/v1/log-search", Answer(200, body, {"Content-Type": "text/event-stream"}))
    return api


def test_matches_are_printed_with_their_place_and_nothing_that_steers(command: Command, found: FakePlatform) -> None:
    result = command("search", "needle", "-i", "-E", "--project", "vision")
    assert result.out == "tj-a worker-0 #2 7: a needle\n"
    assert "--cursor c1" in result.err
    assert found.requests[0].query["ignoreCase"] == ["true"]
    assert found.requests[0].query["project"] == ["vision"]


def test_json_is_a_line_a_match(command: Command, found: FakePlatform) -> None:
    assert json.loads(command("search", "needle", "-o", "json").out)["offset"] == 7


def test_nothing_found_is_an_exit_code(command: Command, nothing: FakePlatform) -> None:
    assert command("search", "needle").code == ExitCode.NOTHING_FOUND
    assert command("logs", "mnist", "--search", "needle").code == ExitCode.NOTHING_FOUND


def test_times_may_be_given_as_how_long_ago(command: Command, found: FakePlatform) -> None:
    command("search", "needle", "--since", "2h30m", "--until", "2026-01-02 03:04:05")
    query = found.requests[0].query
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", query["since"][0])
    assert query["until"] == ["2026-01-02T03:04:05.000Z"]
    assert "is no time; write" in command("search", "needle", "--since", "soon").err


def test_logs_searches_one_job(command: Command, found: FakePlatform) -> None:
    result = command("logs", "mnist", "--search", "needle", "--index", "0", "--since", "1h")
    assert result.out == "worker-0 #2 7: a needle\n"
    assert found.requests[0].query["job"] == ["mnist"]
    assert found.requests[0].query["index"] == ["0"]


def test_logs_by_time(command: Command, api: FakePlatform) -> None:
    api.on("GET", "/v1/logs/mnist/lines", of_json({"attempt": 1, "items": [LINE], "next": None}))
    assert command("logs", "mnist", "--by-time").out == "2026-01-01T00:00:00.000Z worker-0 a needle\n"


def test_logs_are_saved_packed_by_the_name_of_the_file(command: Command, api: FakePlatform, tmp_path: Path) -> None:
    source = {"attempt": 1, "role": "worker", "index": 0, "size": 3, "ended": True}
    api.on("GET", "/v1/logs/mnist", of_json({"replicas": [source]}))
    api.on("GET", "/v1/logs/mnist/1/worker/0/download", Answer(200, b"abc"))
    target = tmp_path / "worker.log.zst"
    assert "3 bytes of worker-0" in command("logs", "mnist", "--download", str(target)).err
    assert target.read_bytes() == b"abc"
    assert api.requests[1].query == {"zstd": ["true"]}


def test_where_to_begin_is_told_to_the_platform(command: Command, api: FakePlatform) -> None:
    source = {"attempt": 1, "role": "worker", "index": 0, "size": 3, "ended": True}
    api.on("GET", "/v1/logs/mnist", of_json({"replicas": [source]}))
    api.on("GET", "/v1/logs/mnist/1/worker/0", Answer(200, b"abc\n", {"Tm-Size": "4", "Tm-Next-Offset": "4"}))
    assert command("logs", "mnist", "--line", "3").out == "abc\n"
    assert api.requests[1].query["line"] == ["3"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-f", "--search", "x"], "--follow and --search do not go together"),
        (["--line", "3", "--tail", "2"], "--line and --tail each say where to begin"),
        (["--search", "x", "--tail", "2"], "--search does not go with --tail"),
        (["-E"], "give --search, too"),
        (["--raw", "-o", "json"], "--raw goes with neither"),
    ],
)
def test_what_does_not_go_together_is_told(
    command: Command, api: FakePlatform, arguments: list[str], said: str
) -> None:
    result = command("logs", "mnist", *arguments)
    assert said in result.err
    assert result.code == ExitCode.INVALID


def test_a_job_and_a_project_are_one_too_many(command: Command, api: FakePlatform) -> None:
    assert "not both" in command("search", "x", "--job", "a", "--project", "b").err
