"""What is not kept: the oldest ended jobs beyond the limits, and nothing of a job that runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from services.logs.domain.retention import Limits, StoredJob, removals

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ages = st.one_of(st.none(), st.integers(0, 100))
jobs = st.lists(st.tuples(ages, st.integers(0, 50), st.sampled_from("ab"), st.sampled_from("xy")), max_size=12).map(
    lambda given_jobs: [stored(f"tj-{number}", *each) for number, each in enumerate(given_jobs)]
)


def stored(job: str, days: int | None, size: int, owner: str = "ada", project: str = "vision") -> StoredJob:
    return StoredJob(job, owner, project, size, None if days is None else NOW - timedelta(days=days))


def gone(given_jobs: list[StoredJob], limits: Limits) -> dict[str, str]:
    return {removal.job.job: removal.reason for removal in removals(given_jobs, limits, NOW)}


def test_what_ended_too_long_ago_goes():
    limits = Limits(age_s=10 * 86_400)
    assert gone([stored("old", 11, 1), stored("new", 9, 1), stored("running", None, 1)], limits) == {"old": "age"}


def test_of_a_user_with_too_much_the_oldest_go_until_the_rest_fits():
    given_jobs = [stored("c", 1, 4), stored("a", 3, 4), stored("b", 2, 4), stored("other", 9, 4, owner="bob")]
    assert gone(given_jobs, Limits(user_bytes=8)) == {"a": "user-size"}
    assert gone(given_jobs, Limits(user_bytes=5)) == {"a": "user-size", "b": "user-size"}


def test_of_a_project_with_too_much_the_oldest_go_whoever_owns_them():
    given_jobs = [stored("a", 3, 4), stored("b", 2, 4, owner="bob"), stored("other", 9, 9, project="nlp")]
    assert gone(given_jobs, Limits(project_bytes=4)) == {"a": "project-size", "other": "project-size"}


def test_what_goes_by_age_makes_room_for_the_rest():
    assert gone([stored("old", 50, 6), stored("new", 1, 6)], Limits(age_s=86_400 * 10, user_bytes=6)) == {"old": "age"}


@given(jobs, st.integers(0, 100), st.integers(0, 100))
def test_a_running_job_is_kept_and_limits_hold_for_what_has_ended(
    given_jobs: list[StoredJob], user_bytes: int, project_bytes: int
):
    found = removals(given_jobs, Limits(user_bytes=user_bytes, project_bytes=project_bytes), NOW)
    assert all(removal.job.ended_at is not None for removal in found)
    left = [job for job in given_jobs if job not in [removal.job for removal in found]]
    for owner in "ab":
        own = [job for job in left if job.owner == owner]
        assert sum(job.bytes for job in own) <= user_bytes or all(job.ended_at is None for job in own if job.bytes)


def test_without_limits_nothing_goes():
    assert not Limits().any
    assert gone([stored("old", 1000, 10**9)], Limits()) == {}
