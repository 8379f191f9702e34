"""What of a job only admins see: the finds of rules that are being tried (mode `shadow`).

Such a find decides nothing, so to the owner and to members of the project it would only be a riddle. It is left out of
the job document, of the history and of the stream of events alike; sequences have a gap there.
"""

from __future__ import annotations

from shared.auth.principal import Principal
from shared.events import IncidentRaised
from shared.jobs import Job, Recorded


def job_for(principal: Principal, job: Job) -> Job:
    """The job as the principal sees it."""
    if principal.admin or not any(_is_tried(each) for attempt in job.attempts for each in attempt.incidents):
        return job
    attempts = (
        attempt.but(incidents=tuple(each for each in attempt.incidents if not _is_tried(each)))
        for attempt in job.attempts
    )
    return job.but(attempts=tuple(attempts))


def is_event_for(principal: Principal, recorded: Recorded) -> bool:
    """Whether the principal sees this event of a job that it may see."""
    data = recorded.event.data
    return principal.admin or not (isinstance(data, IncidentRaised) and _is_tried(data))


def _is_tried(incident: IncidentRaised) -> bool:
    return incident.mode == "shadow"
