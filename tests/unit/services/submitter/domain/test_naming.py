"""Names that the platform completes."""

from __future__ import annotations

import re

from services.submitter.domain.naming import name_of
from shared.jobspec import validate_job
from tests.support.specs import changed, small_job_document, without

JOB = "tj-aaaaaaaaaaaa"
GENERATED = validate_job(changed(without(small_job_document(), "/metadata/name"), "/metadata/generateName", "sweep-"))


def test_a_given_name_is_the_name() -> None:
    assert name_of(validate_job(small_job_document("mnist")), JOB, 3) == "mnist"


def test_a_prefix_is_completed_and_a_repeat_of_the_call_comes_to_the_same_name() -> None:
    name = name_of(GENERATED, JOB, 0)
    assert re.fullmatch("sweep-[a-z2-7]{5}", name)
    assert name_of(GENERATED, JOB, 0) == name


def test_another_job_and_another_try_come_to_another_name() -> None:
    assert len({name_of(GENERATED, JOB, 0), name_of(GENERATED, JOB, 1), name_of(GENERATED, "tj-bbbbbbbbbbbb", 0)}) == 3
