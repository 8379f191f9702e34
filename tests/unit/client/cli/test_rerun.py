"""`trainmaster rerun`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.fake_platform import FakePlatform, of_json, problem
from tests.support.job_documents import JOB_ID, job_document
from trainmaster.errors import ExitCode

Command = Callable[..., Any]


def test_the_job_is_submitted_once_more_with_changes(command: Command, api: FakePlatform) -> None:
    api.on("GET", "/v1/jobs/mnist", of_json(job_document()))
    api.on("POST", "/v1/jobs", of_json(job_document(), 201))
    outcome = command("rerun", "mnist", "--set", "spec.roles.0.replicas=8", "--set", "spec.priority=9")
    assert (outcome.code, outcome.out) == (0, f"job mnist-ddp submitted as {JOB_ID}\n")
    sent = api.asked("POST", "/v1/jobs")[0].json
    assert sent["spec"]["roles"][0]["replicas"] == 8
    assert sent["spec"]["priority"] == 9
    assert sent["metadata"]["generateName"] == "mnist-ddp-"


def test_a_refusal_names_the_place(command: Command, api: FakePlatform) -> None:
    api.on("GET", "/v1/jobs/mnist", of_json(job_document()))
    refusal = problem(422, "invalid-input", "no", ("/spec/priority", "out-of-range", "give 1 to 9"))
    api.on("POST", "/v1/jobs", refusal)
    outcome = command("rerun", "mnist", "--set", "spec.priority=99")
    assert outcome.code == ExitCode.INVALID
    assert "/spec/priority: give 1 to 9" in outcome.err


def test_a_wrong_change_is_refused_before_anything_is_asked(command: Command, api: FakePlatform) -> None:
    outcome = command("rerun", "mnist", "--set", "spec.priority")
    assert outcome.code == ExitCode.INVALID
    assert api.requests == []
