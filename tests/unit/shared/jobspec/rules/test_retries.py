"""Every way to write a retry section wrong, and the sections that are taken."""

from __future__ import annotations

from typing import Any

import pytest

from shared.errors import InvalidInputError
from shared.jobspec.models import JobSpec
from shared.jobspec.validation import validate_job
from tests.support.specs import changed, job_document

FAILURE = "/spec/retry/on/failure"

# (what stands at FAILURE, where below it the violation is, code)
WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"policy": "Always"}, "/policy", "not-a-choice"),
    ({"policy": "ExitCodeAndErrorMsg"}, "", "condition-missing"),
    ({"policy": "ExitCodeAndErrorMsg", "exitCodes": []}, "", "condition-missing"),
    ({"policy": "OnFailure", "exitCodes": [1]}, "/exitCodes", "condition-not-used"),
    ({"errorMessages": [["a"]]}, "/errorMessages", "condition-not-used"),
    ({"policy": "Advanced", "exitCodes": [0]}, "/exitCodes/0", "out-of-range"),
    ({"policy": "Advanced", "exitCodes": [256]}, "/exitCodes/0", "out-of-range"),
    ({"policy": "Advanced", "exitCodes": ["1"]}, "/exitCodes/0", "wrong-type"),
    ({"policy": "Advanced", "exitCodes": [1, 1]}, "/exitCodes/1", "duplicate"),
    ({"policy": "Advanced", "errorMessages": ["a"]}, "/errorMessages/0", "wrong-type"),
    ({"policy": "Advanced", "errorMessages": [[]]}, "/errorMessages/0", "too-few"),
    ({"policy": "Advanced", "errorMessages": [["a"] * 11]}, "/errorMessages/0", "too-many"),
    ({"policy": "Advanced", "errorMessages": [["a"]] * 51}, "/errorMessages", "too-many"),
    ({"policy": "Advanced", "errorMessages": [["a\nb"]]},
     "/errorMessages/0/0", "fragment-never-matches"),
    ({"policy": "Advanced", "errorMessages": [["a", "\x1b[31mred"]]},
     "/errorMessages/0/1", "fragment-never-matches"),
]  # fmt: skip


def with_failure(failure: dict[str, Any]) -> dict[str, Any]:
    return changed(job_document(), "/spec/retry", {"maxRetries": 1, "on": {"failure": failure}})


def violations_of(document: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInputError) as caught:
        validate_job(document)
    return [(violation.pointer, violation.code) for violation in caught.value.violations]


@pytest.mark.parametrize(("failure", "place", "code"), WRONG)
def test_one_wrong_place_in_a_failure_policy_gives_exactly_its_violation(
    failure: dict[str, Any], place: str, code: str
) -> None:
    assert violations_of(with_failure(failure)) == [(FAILURE + place, code)]


def test_a_sentence_says_what_the_policy_wants() -> None:
    with pytest.raises(InvalidInputError) as caught:
        validate_job(with_failure({"policy": "ExitCodeAndErrorMsg"}))
    assert "give exitCodes, errorMessages or both, or use OnFailure" in caught.value.violations[0].message


@pytest.mark.parametrize(
    "failure",
    [
        {},
        {"policy": "OnFailure"},
        {"policy": "OnFailure", "exitCodes": [], "errorMessages": []},
        {"policy": "ExitCodeAndErrorMsg", "exitCodes": [1, 255]},
        {"policy": "ExitCodeAndErrorMsg", "errorMessages": [["a", "b c"], ["\u8bad\u7ec3"]]},
        {"policy": "Advanced"},
        {"policy": "Advanced", "exitCodes": [137], "errorMessages": [["x" * 1000]]},
    ],
)
def test_right_failure_policies_are_taken(failure: dict[str, Any]) -> None:
    validate_job(with_failure(failure))


def retry_of(retry: dict[str, Any]) -> JobSpec:
    return validate_job(changed(job_document(), "/spec/retry", retry))


def test_without_on_every_failure_is_retried() -> None:
    retry = retry_of({"maxRetries": 3}).spec.retry
    assert retry is not None
    assert retry.on.failure is not None
    assert (retry.on.failure.policy, retry.on.hang, retry.interval_s) == ("OnFailure", False, 0)


def test_with_on_only_what_it_names_is_retried() -> None:
    document = changed(job_document(), "/spec/hangDetection", {"enabled": True})
    retry = validate_job(changed(document, "/spec/retry", {"maxRetries": 3, "on": {"hang": True}})).spec.retry
    assert retry is not None
    assert retry.on.failure is None
    assert retry.on.hang


def test_retries_after_a_diagnosis_may_be_declined() -> None:
    retry_of({"maxRetries": 3, "on": {"failure": {}, "diagnosisFailure": False}})
