"""Which logs are not kept any longer: by age after the end of their job, and by size for each user and each project.

Only jobs that have ended come into question. Where a user or a project has too much, the jobs that ended first go
first, until what is left fits; what running jobs take counts, but is never removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

Reason = Literal["age", "user-size", "project-size"]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is kept; None where there is no limit."""

    age_s: float | None = None
    user_bytes: int | None = None
    project_bytes: int | None = None

    @property
    def any(self) -> bool:
        """Whether there is any limit."""
        return (self.age_s, self.user_bytes, self.project_bytes) != (None, None, None)


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job whose logs take some bytes; `ended_at` is None while it lives."""

    job: str
    owner: str
    project: str
    bytes: int
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Removal:
    """Logs that go, and why."""

    job: StoredJob
    reason: Reason


def removals(jobs: Iterable[StoredJob], limits: Limits, now: datetime) -> list[Removal]:
    """What goes."""
    left = list(jobs)
    found: list[Removal] = []
    if limits.age_s is not None:
        oldest = now - timedelta(seconds=limits.age_s)
        found += [Removal(job, "age") for job in left if job.ended_at is not None and job.ended_at < oldest]
    gone = {removal.job.job for removal in found}
    left = [job for job in left if job.job not in gone]
    for limit, key, reason in _sizes(limits):
        over = [Removal(job, reason) for job in _too_much(left, key, limit)]
        gone = {removal.job.job for removal in over}
        left = [job for job in left if job.job not in gone]
        found += over
    return found


def _sizes(limits: Limits) -> list[tuple[int, Callable[[StoredJob], str], Reason]]:
    sizes: list[tuple[int, Callable[[StoredJob], str], Reason]] = []
    if limits.user_bytes is not None:
        sizes.append((limits.user_bytes, lambda job: job.owner, "user-size"))
    if limits.project_bytes is not None:
        sizes.append((limits.project_bytes, lambda job: job.project, "project-size"))
    return sizes


def _too_much(jobs: Sequence[StoredJob], key: Callable[[StoredJob], str], limit: int) -> list[StoredJob]:
    taken: dict[str, int] = {}
    for job in jobs:
        taken[key(job)] = taken.get(key(job), 0) + job.bytes
    ended = [(job.ended_at, job.job, job) for job in jobs if job.ended_at is not None]
    gone = []
    for _, _, job in sorted(ended):
        if taken[key(job)] > limit:
            taken[key(job)] -= job.bytes
            gone.append(job)
    return gone
