"""For how long a placed gang keeps its place: at the latest, as its terms and its record tell."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from services.scheduler.domain.gang import Gang
from services.scheduler.domain.planning.running import Running
from services.scheduler.domain.terms import Terms
from shared.ids import gang_id
from shared.jobs import Job

# From the end of the last process to the end of the attempt on record.
CONFIRMED_S: Final = 5.0


def running_of(job: Job, terms: Terms) -> Running:
    """The present attempt of a job, which is placed."""
    attempt = job.attempt
    since = attempt.started_at or attempt.placed_at or attempt.queued_at
    told_to_stop_at = job.stop_requested_at or attempt.preempted_at
    return Running(
        gang=gang_id(job.id, attempt.number),
        job=job.id,
        priority=job.submitted.priority,
        project=job.project,
        owner=job.owner,
        roles=terms.roles,
        since=since,
        ends_by=_ends_by(since, told_to_stop_at, terms, started=attempt.started_at is not None),
        preemptible=terms.preemptible,
        ending=told_to_stop_at is not None,
        grace_s=terms.grace_s + CONFIRMED_S,
        moves=len(attempt.replaced),
    )


def running_of_gang(gang: Gang, now: datetime) -> Running:
    """A gang that is given its place right now."""
    return Running(
        gang=gang_id(gang.job, gang.attempt),
        job=gang.job,
        priority=gang.priority,
        project=gang.project,
        owner=gang.owner,
        roles=gang.roles,
        since=now,
        ends_by=now + timedelta(seconds=gang.longest_s) if gang.longest_s is not None else None,
    )


def _ends_by(since: datetime, told_to_stop_at: datetime | None, terms: Terms, *, started: bool) -> datetime | None:
    if told_to_stop_at is not None:
        return told_to_stop_at + timedelta(seconds=terms.grace_s + CONFIRMED_S)
    longest_s = terms.longest_s
    if longest_s is None or terms.max_run_time_s is None:
        return None
    return since + timedelta(seconds=terms.max_run_time_s + terms.grace_s if started else longest_s)
