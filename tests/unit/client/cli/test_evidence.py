"""`evidence`: the last bundle that was kept, for people and as the API has it; `get incidents` and its filters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.fake_platform import FakePlatform, of_json
from trainmaster.errors import ExitCode

Command = Callable[..., Any]
LIST, DIGEST = "/v1/incidents/evidence/mnist", "sha256:ab"
AT = "2026-01-02T12:23:12Z"
BUNDLE = {
    "rule": "hang",
    "attempt": 2,
    "line": "no replica has written anything for 20m",
    "takenAt": AT,
    "summary": "3 of 4 ranks are in barrier (train.py:6); worker-3 is in load (train.py:12)",
    "outliers": ["worker-3 is in load (train.py:12)"],
    "problems": ["machine gpu-8: its node agent did not answer"],
    "groups": [{"ranks": ["worker-0"], "doing": "in barrier", "frames": ["barrier (/code/train.py:6)"]}],
    "replicas": [
        {
            "role": "worker",
            "index": 0,
            "node": "gpu-7",
            "processes": [
                {
                    "pid": 41,
                    "rank": 0,
                    "state": "S",
                    "waitsIn": "futex",
                    "cpuPercent": 1.5,
                    "command": "python train.py",
                    "collectives": [{"name": "nccl:all_reduce", "sequence": 7, "state": "started"}],
                }
            ],
            "lastLines": ["step [red]41"],
        },
        {"role": "worker", "index": 3, "node": "gpu-8", "problem": "its node agent did not answer"},
    ],
    "gpus": [{"machine": "gpu-7", "gpus": [{"name": "H200", "busyPercent": 100, "pids": [41]}]}],
}


def taken(attempt: int, digest: str | None) -> dict[str, Any]:
    return {"attempt": attempt, "rule": "hang", "digest": digest, "at": AT}


def test_the_last_that_was_kept_is_shown(command: Command, api: FakePlatform) -> None:
    api.on("GET", LIST, of_json({"items": [taken(1, "sha256:aa"), taken(2, DIGEST), taken(3, None)]}))
    api.on("GET", f"{LIST}/{DIGEST}", of_json(BUNDLE))
    lines = command("evidence", "mnist").out.splitlines()
    assert lines[0] == "hang, attempt 2: no replica has written anything for 20m"
    assert "stands out: worker-3 is in load (train.py:12)" in lines
    assert "not seen: machine gpu-8: its node agent did not answer" in lines
    assert "step [red]41" in "\n".join(lines)
    (process,) = [line for line in lines if "futex" in line]
    assert "nccl:all_reduce 7 started" in process
    (gpu,) = [line for line in lines if "H200" in line]
    assert gpu.split() == ["gpu-7", "H200", "100", "?", "?", "41"]
    assert command("evidence", "mnist", "-o", "json").json == BUNDLE


def test_no_evidence_is_told_with_when_there_is_any(command: Command, api: FakePlatform) -> None:
    api.on("GET", LIST, of_json({"items": [taken(1, "sha256:aa")]}))
    outcome = command("evidence", "mnist", "--attempt", "2")
    assert outcome.code == ExitCode.INVALID
    assert "no evidence was taken of attempt 2 of mnist" in outcome.err
    assert "hangDetection" in outcome.err


def test_incidents_are_filtered_and_filters_of_jobs_are_not_theirs(command: Command, api: FakePlatform) -> None:
    item = {"jobName": "mnist", "attempt": 1, "rule": "xid-79", "class": "node", "line": "Xid 79", "at": AT}
    api.on("GET", "/v1/incidents", of_json({"items": [item], "next": None}))
    outcome = command("get", "incidents", "--class", "node", "--job", "mnist")
    assert outcome.out.splitlines()[1].split()[2:] == ["mnist", "1", "xid-79", "node", "-", "Xid", "79"]
    assert api.requests[0].query == {"class": ["node"], "job": ["mnist"]}
    refused = command("get", "incidents", "--label", "x")
    assert (refused.code, "--label is for jobs" in refused.err) == (ExitCode.INVALID, True)
