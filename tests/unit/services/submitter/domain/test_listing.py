"""Who sees which jobs, and what a list asks the read model."""

from __future__ import annotations

import pytest

from services.submitter.domain.listing import JobFilters, is_visible, only_one, query_of
from shared.auth.principal import Principal
from shared.catalog import User
from shared.errors import ConflictError, InvalidInputError, NotFoundError
from shared.http.paging import encode_cursor
from shared.ids import UserId
from shared.jobs import JobState
from tests.support.catalog import catalog_of, project
from tests.support.jobs import job_after

BOB = Principal(UserId(User.id_of("bob")), "bob")
ROOT = Principal(UserId("u-root"), "root", admin=True)
CATALOG = catalog_of(project("vision", owner="ann", users=["bob"]))


def test_users_are_kept_to_their_own_jobs_and_those_of_their_projects() -> None:
    query = query_of(JobFilters(), BOB, CATALOG)
    assert (query.visible_to, query.visible_projects) == (BOB.user_id, ("vision",))
    assert query_of(JobFilters(), ROOT, CATALOG).visible_to is None


def test_filters_become_the_query() -> None:
    cursor = encode_cursor(("2026-01-01T00:00:00.000000+00:00", "tj-x"))
    filters = JobFilters(state=("Queued",), label=("a", "b"), project="p", owner="bob", limit=7, cursor=cursor)
    query = query_of(filters, ROOT, CATALOG)
    assert query.states == (JobState.QUEUED,)
    assert query.labels == ("a", "b")
    assert (query.project, query.owner, query.limit) == ("p", BOB.user_id, 7)
    assert query.after == ("2026-01-01T00:00:00.000000+00:00", "tj-x")
    with pytest.raises(InvalidInputError):
        query_of(JobFilters(cursor=encode_cursor((1,))), ROOT, CATALOG)


def test_visibility_follows_owner_project_and_deletion() -> None:
    job = job_after()
    assert is_visible(job, Principal(UserId("u-ada"), "ada"), CATALOG)
    assert is_visible(job, ROOT, CATALOG)
    assert not is_visible(job, BOB, CATALOG)
    assert is_visible(job.model_copy(update={"project": "vision"}), BOB, CATALOG)
    assert not is_visible(job.model_copy(update={"deleted": True}), ROOT, CATALOG)


def test_a_name_of_others_must_mean_one_job() -> None:
    first, second = job_after(), job_after()
    assert only_one([first], "demo") is first
    with pytest.raises(NotFoundError):
        only_one([], "demo")
    with pytest.raises(ConflictError, match=second.id):
        only_one([first, second], "demo")
