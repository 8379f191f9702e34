"""Orders about nodes, and a node on a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fake_platform import FakePlatform, of_json, problem
from trainmaster.errors import ExitCode

Command = Callable[..., Any]
NODE = {
    "apiVersion": "trainmaster/v1",
    "kind": "Node",
    "metadata": {"id": "n-0", "name": "node-0", "labels": {"leaf": "7"}},
    "spec": {"cluster": "main", "cpu": "8", "memory": "32Gi", "gpus": 2, "gpuModels": ["A100"]},
    "status": {
        "state": "Draining",
        "reason": "a new disk",
        "by": "root",
        "since": "2026-01-02T14:00:00.000Z",
        "quarantineWithheld": False,
        "pools": ["public"],
        "free": {"cpu": "3", "memory": "30Gi", "gpus": 1},
        "jobs": [{"job": "tj-abcdefghijkl", "name": "mnist", "project": "vision", "replicas": 2}],
        "otherReplicas": 3,
    },
}
MARKED = {
    "type": "trainmaster.node.marked.v1",
    "time": "2026-01-02T14:00:00.000Z",
    "sequence": 4,
    "data": {"cluster": "main", "node": "n-0", "wish": "Draining", "by": "root", "reason": "a new disk"},
}


@pytest.mark.parametrize("verb", ["drain", "quarantine"])
def test_an_order_is_sent_with_its_reason(command: Command, api: FakePlatform, verb: str) -> None:
    api.on("POST", f"/v1/nodes/node-0/{verb}", of_json(NODE))
    outcome = command(verb, "node-0", "--reason", "a new disk")
    assert (outcome.code, outcome.out.strip()) == (0, "Draining")
    assert api.requests[0].json == {"reason": "a new disk"}
    assert command(verb, "node-0", "--reason", "x", "-o", "json").json == NODE


def test_a_bad_node_is_tested_before_it_is_used_again_unless_that_is_forced(
    command: Command, api: FakePlatform
) -> None:
    wanted = {"by": "root", "reason": "a new fan", "since": "2026-01-02T14:00:00.000Z"}
    waits = {**NODE, "status": NODE["status"] | {"state": "Quarantined", "returning": wanted}}
    api.on("POST", "/v1/nodes/node-0/restore", of_json(waits), of_json(NODE))
    outcome = command("restore", "node-0", "--reason", "a new fan")
    assert outcome.out.strip() == "Quarantined"
    assert "returns when it passes" in outcome.err
    forced = command("restore", "node-0", "--reason", "a new fan", "--force")
    assert (forced.out.strip(), forced.err) == ("Draining", "")
    assert [request.json["force"] for request in api.requests] == [False, True]
    api.on("GET", "/v1/nodes/node-0", of_json(waits))
    forced_mark = {**MARKED, "data": MARKED["data"] | {"wish": "Ready", "forced": True}}
    api.on("GET", "/v1/nodes/node-0/events", of_json({"items": [forced_mark], "next": None}))
    out = command("describe", "node", "node-0").out
    assert "root wants it back (a new fan): tested first" in out
    assert "marked: Ready (forced)" in out


def test_the_history_of_a_node_does_not_repeat_its_id(command: Command, api: FakePlatform) -> None:
    recalled = {**MARKED, "type": "trainmaster.node.recalled.v1"}
    recalled["data"] = {"cluster": "main", "node": "n-0", "by": "root", "reason": "a new fan"}
    api.on("GET", "/v1/nodes/node-0", of_json(NODE))
    api.on("GET", "/v1/nodes/node-0/events", of_json({"items": [recalled], "next": None}))
    line = next(line for line in command("describe", "node", "node-0").out.splitlines() if "recalled" in line)
    assert line.split()[2:] == ["recalled", "root", "a", "new", "fan"]


def test_an_order_without_a_reason_is_not_sent(command: Command, api: FakePlatform) -> None:
    outcome = command("drain", "node-0")
    assert outcome.code == ExitCode.INVALID
    assert "--reason" in outcome.err
    assert api.requests == []


def test_a_user_is_told_that_orders_are_for_admins(command: Command, api: FakePlatform) -> None:
    api.on("POST", "/v1/nodes/node-0/drain", problem(403, "forbidden", "only admins drain"))
    outcome = command("drain", "node-0", "--reason", "mine")
    assert outcome.code == ExitCode.AUTH
    assert "only admins drain" in outcome.err


def test_a_node_is_described_with_its_state_its_jobs_and_to_admins_its_history(
    command: Command, api: FakePlatform
) -> None:
    api.on("GET", "/v1/nodes/node-0", of_json(NODE))
    api.on("GET", "/v1/nodes/node-0/events", of_json({"items": [MARKED], "next": None}))
    out = command("describe", "node", "node-0").out
    for told in ("Draining", "root: a new disk", "leaf=7", "mnist", "3 replicas of jobs", "marked: Draining"):
        assert told in out


def test_a_node_is_described_to_admins_with_what_the_ledger_says_of_its_health(
    command: Command, api: FakePlatform
) -> None:
    last = {"id": "dg-1", "at": "2026-01-02T12:00:01Z", "verdict": "amber", "problems": [], "doubts": ["slow once"]}
    entry = {"suspicion": 0.085, "suspect": True, "parts": [{"part": "node-0 cpu-1", "suspicion": 0.31}]}
    api.on("GET", "/v1/nodes/node-0", of_json(NODE))
    api.on("GET", "/v1/nodes/node-0/events", of_json({"items": [MARKED], "next": None}))
    api.on("GET", "/v1/diagnoses/nodes/node-0", of_json({**entry, "passUntil": None, "lastDiagnosis": last}))
    lines = command("describe", "node", "node-0").out.splitlines()
    assert lines[lines.index("Health") + 1 :][:3] == [
        "suspect, other jobs get it last; bad with a probability of 8.5 %; it has no pass that holds",
        "last diagnosis dg-1 at 2026-01-02 12:00:01Z: amber, slow once",
        "node-0 cpu-1: bad with a probability of 31 %",
    ]


@pytest.mark.parametrize(
    ("health", "suspect", "standing"),
    [
        ("bad", True, "found bad, returns by passing; "),
        ("suspect", False, "suspect, other jobs get it last; "),
        ("good", False, ""),
    ],
)
def test_what_the_ledger_makes_of_a_node_is_told_by_its_health(
    command: Command, api: FakePlatform, health: str, standing: str, *, suspect: bool
) -> None:
    entry = {"suspicion": 0.99, "suspect": suspect, "health": health, "parts": [], "lastDiagnosis": None}
    api.on("GET", "/v1/nodes/node-0", of_json(NODE))
    api.on("GET", "/v1/nodes/node-0/events", of_json({"items": [MARKED], "next": None}))
    api.on("GET", "/v1/diagnoses/nodes/node-0", of_json({**entry, "passUntil": None}))
    lines = command("describe", "node", "node-0").out.splitlines()
    assert lines[lines.index("Health") + 1].startswith(f"{standing}bad with a probability of 99 %; it has no pass")


def test_users_get_the_page_without_the_history(command: Command, api: FakePlatform) -> None:
    api.on("GET", "/v1/nodes/node-0", of_json(NODE))
    api.on("GET", "/v1/nodes/node-0/events", problem(403, "forbidden", "only admins"))
    outcome = command("describe", "node", "node-0")
    assert outcome.code == 0
    assert "History" not in outcome.out


def test_only_jobs_and_nodes_are_described(command: Command, api: FakePlatform) -> None:
    assert command("describe", "pool", "public").code == ExitCode.INVALID
    assert command("describe", "node", "node-0", "--attempt", "1").code == ExitCode.INVALID
    assert api.requests == []


def test_the_list_says_why_a_node_is_not_ready_and_what_the_cap_withholds(command: Command, api: FakePlatform) -> None:
    withheld = {**NODE, "status": NODE["status"] | {"state": "Ready", "quarantineWithheld": True, "by": "diagnoser"}}
    api.on("GET", "/v1/nodes", of_json({"items": [NODE, withheld], "next": None}))
    _, first, second = command("get", "nodes").out.splitlines()
    assert first.rstrip().endswith("root: a new disk")
    assert second.rstrip().endswith("quarantine withheld: diagnoser: a new disk")
