from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fake_platform import FakePlatform, of_json
from tests.support.job_documents import job_document
from trainmaster.errors import ExitCode
from trainmaster.kinds import KINDS

Command = Callable[..., Any]
POOL = {
    "apiVersion": "trainmaster/v1",
    "kind": "Pool",
    "metadata": {"name": "team-a"},
    "spec": {"type": "dedicated", "cluster": "main", "queuePolicy": "fifo", "members": {"users": ["ada", "eve"]}},
}


def test_jobs_are_filtered_by_the_platform(command: Command, api: FakePlatform) -> None:
    api.on("GET", "/v1/jobs", of_json({"items": [job_document("Running")], "next": None}))
    outcome = command(
        "get", "jobs", "--state", "Running", "--state", "Queued", "--label", "a", "--label", "b",
        "--project", "vision", "--owner", "ada", "--limit", "5", "--cursor", "c0",
    )  # fmt: skip
    assert outcome.code == 0
    assert api.requests[0].query == {
        "state": ["Running", "Queued"],
        "label": ["a", "b"],
        "project": ["vision"],
        "owner": ["ada"],
        "limit": ["5"],
        "cursor": ["c0"],
    }


def test_a_table_has_a_line_for_each_job(command: Command, api: FakePlatform) -> None:
    api.on("GET", "/v1/jobs", of_json({"items": [job_document(), job_document("Queued", endedAt=None)], "next": None}))
    header, first, second = command("get", "jobs").out.splitlines()
    assert header.split()[:3] == ["NAME", "ID", "STATE"]
    assert first.split()[:7] == ["mnist-ddp", "tj-abcdefghijkl", "Succeeded", "-", "1", "2", "vision"]
    assert second.split()[2] == "Queued"


def test_json_is_the_answer_of_the_platform(command: Command, api: FakePlatform) -> None:
    answer = {"items": [job_document()], "next": "c1"}
    api.on("GET", "/v1/jobs", of_json(answer))
    assert command("get", "jobs", "-o", "json").json == answer


def test_where_there_are_more_the_cursor_is_told(command: Command, api: FakePlatform) -> None:
    api.on("GET", "/v1/jobs", of_json({"items": [job_document()], "next": "c1"}))
    assert "--cursor c1" in command("get", "jobs").err


def test_all_pages_can_be_had(command: Command, api: FakePlatform) -> None:
    pages = [{"items": [job_document()], "next": "c1"}, {"items": [job_document()], "next": None}]
    api.on("GET", "/v1/jobs", *map(of_json, pages))
    assert command("get", "jobs", "--all", "-o", "json").json == {"items": [job_document()] * 2, "next": None}


def test_an_empty_list_is_told_beside_the_result(command: Command, api: FakePlatform) -> None:
    api.on("GET", "/v1/pools", of_json({"items": [], "next": None}))
    outcome = command("get", "pools")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "no pools\n")


@pytest.mark.parametrize("kind", ["pool", "pools", "Pool"])
def test_one_is_shown_by_its_name(command: Command, api: FakePlatform, kind: str) -> None:
    api.on("GET", "/v1/pools/team-a", of_json(POOL))
    header, row = command("get", kind, "team-a").out.splitlines()
    assert header.split() == ["NAME", "TYPE", "CLUSTER", "QUEUE", "MEMBERS", "NODES", "READY", "FREE"]
    assert row.split() == ["team-a", "dedicated", "main", "fifo", "users=ada,", "eve", "-", "-", "-"]


def test_yaml_of_the_platform_can_be_applied_again(command: Command, api: FakePlatform) -> None:
    api.on("GET", "/v1/pools/team-a", of_json(POOL))
    api.on("PUT", "/v1/pools/team-a", of_json(POOL))
    text = command("get", "pool", "team-a", "-o", "yaml").out
    assert command("apply", "-f", "-", stdin=text).code == 0
    assert api.requests[-1].json == POOL


@pytest.mark.parametrize(
    "arguments",
    [
        ("jbs",),
        ("pools", "--state", "Running"),
        ("jobs", "--limit", "0"),
        ("jobs", "--limit", "many"),
        ("jobs", "-o", "xml"),
        (),
    ],
)
def test_what_makes_no_sense_is_not_asked(command: Command, api: FakePlatform, arguments: tuple[str, ...]) -> None:
    assert command("get", *arguments).code == ExitCode.INVALID
    assert api.requests == []


def test_no_line_of_a_table_ends_in_blanks(command: Command, api: FakePlatform) -> None:
    api.on("GET", "/v1/jobs", of_json({"items": [job_document(), job_document("Queued", endedAt=None)], "next": None}))
    api.on("GET", "/v1/jobs/mnist", of_json(job_document()))
    for arguments in (("get", "jobs"), ("describe", "mnist")):
        printed = command(*arguments).out
        assert printed
        assert [line for line in printed.split("\n") if line != line.rstrip()] == []


def test_help_names_every_kind(command: Command) -> None:
    named = set(command("get", "--help").out.replace(",", " ").replace(".", " ").split())
    assert {kind.plural for kind in KINDS} <= named
