"""`usage` and `usage verify`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fake_platform import FakePlatform, of_json, problem
from tests.support.job_documents import JOB_ID, job_document
from tests.support.usage_documents import bill_document, bill_line, verification_document
from trainmaster.errors import ExitCode

Command = Callable[..., Any]
BILL, VERIFICATION = "/v1/usage/bill", "/v1/usage/verification"
STARTING = bill_line(phase="starting", billable=False, replicaMs=3000, amountMicros=0)


def test_a_job_is_billed_by_attempt_role_and_phase(command: Command, api: FakePlatform) -> None:
    api.on("GET", BILL, of_json(bill_document(STARTING, bill_line(), bill_line(attempt=2), accrued=0)))
    lines = command("usage", "mnist-ddp").out.splitlines()
    assert lines[1].split() == ["1", "worker", "running", "cpu-small", "public", "0.04", "2h00m", "0.08"]
    assert lines[2].split() == ["1", "worker", "starting", "cpu-small", "public", "0.04", "3.0s", "not", "billed"]
    assert lines[-1] == "Total 0.16 for 4h00m of running replicas"
    assert api.requests[0].query["job"] == ["mnist-ddp"]


def test_everything_is_a_line_for_each_job_over_all_pages(command: Command, api: FakePlatform) -> None:
    other = bill_line(job="tj-other", jobName="other", amountMicros=21)
    first, second = bill_document(bill_line(), other, following="more"), bill_document(bill_line(attempt=2))
    api.on("GET", BILL, of_json(first), of_json(second))
    outcome = command("usage", "--project", "vision", "--from", "2026-01-01", "--to", "2026-02-01T12:00:00Z")
    lines = outcome.out.splitlines()
    assert lines[1].split() == ["mnist-ddp", JOB_ID, "vision", "ada", "4h00m", "0.16"]
    assert lines[2].split()[-1] == "0.000021"
    asked, following = api.requests
    assert asked.query["from"] == ["2026-01-01T00:00:00Z"]
    assert asked.query["to"] == ["2026-02-01T12:00:00Z"]
    assert following.query["cursor"] == ["more"]


def test_a_running_job_shows_what_is_not_on_record_yet(command: Command, api: FakePlatform) -> None:
    api.on("GET", BILL, of_json(bill_document(bill_line(), accrued=5000)))
    assert "and 0.005 since, not on record yet" in command("usage", "mnist-ddp").out


def test_json_holds_all_lines_and_the_total(command: Command, api: FakePlatform) -> None:
    api.on("GET", BILL, of_json(bill_document(bill_line(), accrued=0)))
    assert command("usage", "mnist-ddp", "-o", "json").json == {
        "items": [bill_line()],
        "total": {"replicaMs": 7_200_000, "amountMicros": 80_000},
        "accrued": {"replicaMs": 0, "amountMicros": 0},
    }


def test_a_bill_that_is_right_is_verified_quietly(command: Command, api: FakePlatform) -> None:
    api.on("GET", VERIFICATION, of_json({"items": [verification_document()], "next": None}))
    outcome = command("usage", "verify", "mnist-ddp")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "1 jobs verified\n")
    assert api.requests[0].query["job"] == ["mnist-ddp"]


def test_a_difference_is_shown_and_has_an_exit_code_of_its_own(command: Command, api: FakePlatform) -> None:
    wrong = verification_document("different", recorded=90_000)
    pages = ({"items": [verification_document()], "next": "more"}, {"items": [wrong], "next": None})
    api.on("GET", VERIFICATION, *map(of_json, pages))
    outcome = command("usage", "verify")
    assert outcome.code == ExitCode.USAGE_DIFFERS
    (line,) = outcome.out.splitlines()[1:]
    assert "0.09 for 7200.000s" in line
    assert line.split()[-1] == "different"
    assert outcome.err == "1 of 2 jobs differ\n"


def test_what_is_not_finished_is_shown_and_is_no_difference(command: Command, api: FakePlatform) -> None:
    api.on("GET", VERIFICATION, of_json({"items": [verification_document("open", recorded=0)], "next": None}))
    outcome = command("usage", "verify")
    assert outcome.code == ExitCode.OK
    assert "open" in outcome.out


@pytest.mark.parametrize("words", [("a", "b"), ("verify", "a", "b"), ("verify", "--project", "x")])
def test_what_makes_no_sense_is_refused(command: Command, words: tuple[str, ...]) -> None:
    assert command("usage", *words).code == ExitCode.INVALID


def test_describe_shows_the_cost(command: Command, api: FakePlatform) -> None:
    api.on("GET", "/v1/jobs/mnist", of_json(job_document()))
    api.on("GET", BILL, of_json(bill_document(bill_line(), accrued=0)))
    assert "Cost       0.08" in command("describe", "mnist").out
    api.on("GET", BILL, of_json(bill_document(bill_line(), accrued=20_000)))
    assert "Cost       0.10 so far" in command("describe", "mnist").out


def test_describe_does_without_the_cost_where_the_platform_cannot_say(command: Command, api: FakePlatform) -> None:
    api.on("GET", "/v1/jobs/mnist", of_json(job_document()))
    api.on("GET", BILL, problem(404, "not-found", "there is no such route"))
    outcome = command("describe", "mnist")
    assert outcome.code == ExitCode.OK
    assert "Cost" not in outcome.out
