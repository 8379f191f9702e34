from __future__ import annotations

from tests.support.fake_platform import Answer, FakePlatform, of_json, problem
from tests.unit.client.cli.conftest import Command
from trainmaster.errors import ExitCode

OPENED = {
    "id": "tb-x",
    "url": "/v1/tensorboard/tb-x/",
    "ticket": "/v1/tensorboard/tb-x/?ticket=t",
    "expiresIn": 60,
    "runs": [{"name": "attempt-1", "job": "tj-a", "attempt": 1}],
}


def test_the_address_is_the_result_and_the_runs_are_a_remark(command: Command, api: FakePlatform) -> None:
    api.on("POST", "/v1/tensorboard", of_json(OPENED))
    outcome = command("tensorboard", "mnist", "cifar", "--attempt", "1")
    assert outcome.out.endswith("/v1/tensorboard/tb-x/?ticket=t\n")
    assert outcome.out.startswith("http")
    assert "shows attempt-1; the address is good for 60 s" in outcome.err
    assert api.requests[0].json == {"jobs": ["mnist", "cifar"], "attempts": [1], "dir": None}


def test_a_job_without_records_is_told_of_dir(command: Command, api: FakePlatform) -> None:
    api.on("POST", "/v1/tensorboard", of_json({**OPENED, "runs": []}))
    assert "--dir" in command("tensorboard", "mnist").err


def test_json_is_the_answer(command: Command, api: FakePlatform) -> None:
    api.on("POST", "/v1/tensorboard", of_json(OPENED))
    assert command("tensorboard", "mnist", "--dir", "/mnt/x", "-o", "json").json == OPENED
    assert api.requests[0].json["dir"] == "/mnt/x"


def test_it_can_be_stopped(command: Command, api: FakePlatform) -> None:
    api.on("POST", "/v1/tensorboard", of_json(OPENED))
    api.on("DELETE", "/v1/tensorboard/tb-x", Answer(204))
    assert command("tensorboard", "mnist", "--stop").code == ExitCode.OK
    assert len(api.asked("DELETE", "/v1/tensorboard/tb-x")) == 1


def test_a_refusal_is_told(command: Command, api: FakePlatform) -> None:
    api.on("POST", "/v1/tensorboard", problem(403, "forbidden", "only the owner"))
    outcome = command("tensorboard", "mnist", "--dir", "/mnt/x")
    assert outcome.code != ExitCode.OK
    assert "only the owner" in outcome.err
