"""Whether a job's attempt still waits for the outcome of a request for a diagnosis: pure."""

from __future__ import annotations

from shared.events import DiagnosisRequested, Event
from shared.jobs import Job, JobState


def waits_for(job: Job, request: Event) -> bool:
    """Whether it is the same attempt in the same round, still Diagnosing, and has no outcome yet."""
    if job.state is not JobState.DIAGNOSING or job.attempt.number != request.attempt:
        return False
    is_present = isinstance(request.data, DiagnosisRequested) and request.data.round == job.attempt.round
    return is_present and job.attempt.diagnosis is None
