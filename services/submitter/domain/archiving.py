"""Which ended jobs have been at rest long enough to be archived."""

from __future__ import annotations

from datetime import datetime

from shared.jobs import Job


def is_at_rest(job: Job, cutoff: datetime) -> bool:
    """Whether the job ended before the cutoff."""
    return job.ended and job.ended_at is not None and job.ended_at <= cutoff
