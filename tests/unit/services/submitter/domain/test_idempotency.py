"""Keys of repeated submissions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.submitter.domain import idempotency
from shared.errors import ConflictError, InvalidInputError
from shared.ids import is_job_id
from tests.support.jobs import job_after


@given(st.text(), st.text(min_size=1))
def test_a_key_makes_a_proper_job_id_of_its_user_alone(user: str, key: str) -> None:
    job_id = idempotency.job_id_of(user, key)
    assert is_job_id(job_id)
    assert job_id == idempotency.job_id_of(user, key)
    assert job_id != idempotency.job_id_of(user + "x", key)


def test_the_digest_does_not_see_the_order_of_keys_but_everything_else() -> None:
    assert idempotency.digest_of({"a": 1, "b": [1, 2]}) == idempotency.digest_of({"b": [1, 2], "a": 1})
    assert idempotency.digest_of({"a": 1}) != idempotency.digest_of({"a": "1"})
    assert idempotency.digest_of({"b": [1, 2]}) != idempotency.digest_of({"b": [2, 1]})


@pytest.mark.parametrize("key", ["", "a b", "ä", "x" * 256, "a\nb"])
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(InvalidInputError):
        idempotency.check_key(key)


def test_a_repeat_gives_the_job_and_another_document_or_a_deleted_job_does_not() -> None:
    job = job_after()
    job = job.model_copy(update={"submitted": job.submitted.model_copy(update={"request_digest": "d"})})
    assert idempotency.check_repeat(job, "d") is job
    with pytest.raises(InvalidInputError):
        idempotency.check_repeat(job, "e")
    with pytest.raises(ConflictError):
        idempotency.check_repeat(job.model_copy(update={"deleted": True}), "d")
