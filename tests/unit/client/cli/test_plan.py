"""What would become of a job, told without submitting it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_platform import FakePlatform, of_json, problem
from trainmaster.errors import ExitCode

Command = Callable[..., Any]
JOB = "apiVersion: trainmaster/v1\nkind: TrainingJob\nmetadata: {name: x}\nspec: {roles: [{replicas: 9}]}\n"
STARTS = {
    "valid": True,
    "starts": True,
    "placement": [{"role": "worker", "pool": "public", "nodes": [{"node": "node-0", "replicas": 9}]}],
    "pricePerHour": "0.36",
    "summary": "starts now",
    "differences": ["the image is noted and not used"],
}
WAITS = {
    "valid": True,
    "starts": False,
    "placement": [],
    "pricePerHour": None,
    "summary": "waits for capacity",
    "position": 3,
    "blockers": [
        {"role": "worker", "resource": "cpu", "needed": 9000, "available": 1000, "total": 8000, "detail": "too little"}
    ],
    "held": [
        {
            "resource": "cpu",
            "pool": "public",
            "by": [{"job": "tj-abcdefghijkl", "amount": 4000, "endsBy": "2026-01-02T14:00:00.000Z"}],
            "byOthers": 3000,
        }
    ],
    "changes": [{"kind": "replicas", "text": "1 instead of 9 replicas", "settings": ["spec.roles.0.replicas=1"]}],
    "suggestions": ["1 instead of 9 replicas would start it now"],
    "expectedStartAt": "2026-01-02T14:00:00.000Z",
}


def written(tmp_path: Path, text: str = JOB) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    return str(path)


def test_a_job_that_would_start_is_told_with_its_place_and_price(
    command: Command, api: FakePlatform, tmp_path: Path
) -> None:
    api.on("POST", "/v1/plans", of_json(STARTS))
    outcome = command("plan", "-f", written(tmp_path))
    assert outcome.code == 0
    for told in ("would start now, 0.36 an hour", "node-0", "- the image is noted and not used"):
        assert told in outcome.out
    assert [request.path for request in api.requests] == ["/v1/plans"]


def test_a_job_that_would_wait_is_told_why_for_whom_until_when_and_what_would_start_it(
    command: Command, api: FakePlatform, tmp_path: Path
) -> None:
    api.on("POST", "/v1/plans", of_json(WAITS))
    out = command("plan", "-f", written(tmp_path)).out
    for told in (
        "would wait",
        "waits for capacity",
        "tj-abcdefghijkl",
        "others",
        "3 cores",
        "starts by",
        "(--set spec.roles.0.replicas=1)",
    ):
        assert told in out


def test_a_job_that_never_fits_and_names_unknown_nodes_is_told_so(
    command: Command, api: FakePlatform, tmp_path: Path
) -> None:
    api.on("POST", "/v1/plans", of_json({**WAITS, "neverFits": True, "warnings": ["excludeNodes names no node: x"]}))
    out = command("plan", "-f", written(tmp_path)).out
    assert "would never start as things are" in out
    assert "warning: excludeNodes names no node: x" in out
    api.on("POST", "/v1/plans", of_json({**STARTS, "warnings": ["excludeNodes names no node: x"]}))
    assert "warning: excludeNodes names no node: x" in command("plan", "-f", written(tmp_path)).out


def test_errors_are_told_at_their_place(command: Command, api: FakePlatform, tmp_path: Path) -> None:
    fault = ("/spec/roles/0/replicas", "never-fits", "give at most 8")
    api.on("POST", "/v1/plans", problem(422, "invalid-input", "1 thing is wrong", fault))
    outcome = command("plan", "-f", written(tmp_path))
    assert outcome.code == ExitCode.INVALID
    assert "job.yaml:4:27: error: give at most 8" in outcome.err


def test_a_folder_of_code_is_named_by_the_digest_that_it_would_have_and_not_uploaded(
    command: Command, api: FakePlatform, tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print()")
    api.on("POST", "/v1/plans", of_json(STARTS))
    text = JOB.replace("spec: {", "spec: {code: {upload: ./src}, ")
    assert command("plan", "-f", written(tmp_path, text), "-o", "json").json == STARTS
    assert api.requests[0].json["spec"]["code"]["upload"].startswith("sha256:")


BESIDE = "---\nkind: Storage\nmetadata: {name: team-data}\nspec: {uri: pvc://team-data}\n"


def test_a_plan_is_made_with_what_is_in_place_of_the_rest_of_the_file(
    command: Command, api: FakePlatform, tmp_path: Path
) -> None:
    api.on("GET", "/v1/assets/storages/team-data", of_json({"kind": "Storage"}))
    api.on("POST", "/v1/plans", of_json(STARTS))
    outcome = command("plan", "-f", written(tmp_path, BESIDE + "---\n" + JOB))
    assert "would start now" in outcome.out
    assert "planned with what is in place, and not with what the file says of it: storage team-data" in outcome.err


def test_what_is_not_in_place_yet_is_named_before_any_plan_is_made(
    command: Command, api: FakePlatform, tmp_path: Path
) -> None:
    api.on("GET", "/v1/assets/storages/team-data", problem(404, "not-found", "there is no storage team-data"))
    outcome = command("plan", "-f", written(tmp_path, JOB + BESIDE))
    assert outcome.code == ExitCode.INVALID
    assert "not in place yet: storage team-data; a plan is made with what is there" in outcome.err
    assert [request.method for request in api.requests] == ["GET"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BESIDE, "plans are made for kind TrainingJob, and there is none"),
        (JOB + "---\nkind: Storrage\nmetadata: {name: x}\n", "did you mean Storage?"),
        (JOB + "---\nkind: Storage\n", "metadata.name is missing"),
    ],
)
def test_a_file_that_cannot_be_planned_is_refused(
    command: Command, api: FakePlatform, tmp_path: Path, text: str, words: str
) -> None:
    outcome = command("plan", "-f", written(tmp_path, text))
    assert outcome.code == ExitCode.INVALID
    assert words in outcome.err
    assert api.requests == []


TESTED = JOB.replace("spec: {", "spec: {diagnosis: {enabled: true}, ")
GPUS = {
    **STARTS,
    "placement": [
        {**STARTS["placement"][0], "gpus": 4, "instanceType": "gpu-4", "nodes": [{"node": "node-0", "replicas": 2}]}
    ],
}


def test_a_job_whose_nodes_are_tested_first_is_told_how_long_that_takes(
    command: Command, api: FakePlatform, tmp_path: Path
) -> None:
    api.on("POST", "/v1/plans", of_json(GPUS))
    api.on("POST", "/v1/diagnoses/plans", of_json({"budgetS": 144.2, "mostS": 239.9, "tested": ["node-0"]}))
    outcome = command("plan", "-f", written(tmp_path, TESTED))
    assert "its nodes are tested first: about 144 s, at most 240 s where there are suspects" in outcome.out
    assert api.requests[-1].json == {"nodes": {"node-0": 8}, "instanceTypes": ["gpu-4"]}
    assert "tested first" not in command("plan", "-f", written(tmp_path)).out


def test_a_diagnoser_that_is_away_keeps_no_plan_back(command: Command, api: FakePlatform, tmp_path: Path) -> None:
    api.on("POST", "/v1/plans", of_json(STARTS))
    api.on("POST", "/v1/diagnoses/plans", problem(404, "not-found", "there is no node 'node-0'"))
    outcome = command("plan", "-f", written(tmp_path, TESTED))
    assert outcome.code == 0
    assert "for how long is not known now" in outcome.out
