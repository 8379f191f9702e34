"""How long what a failed attempt leaves on its machine is held, so that somebody can look at it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from shared.events import EndReason
from shared.jobs import Job
from shared.units import parse_duration_s

KEEP_KEY: Final = "keepFor"
# An attempt that was wanted to end, or that ended well, leaves nothing to look into.
_UNREMARKABLE: Final = frozenset({EndReason.COMPLETED, EndReason.STOPPED, EndReason.PREEMPTED})


def kept_until(job: Job, number: int) -> datetime | None:
    """Until when the sandbox of an ended attempt is held; None where it may go at once."""
    wanted = job.submitted.spec.get(KEEP_KEY)
    attempt = next((attempt for attempt in job.attempts if attempt.number == number), None)
    if attempt is None or attempt.ended is None or attempt.ended_at is None or not isinstance(wanted, str):
        return None
    if attempt.ended.reason in _UNREMARKABLE:
        return None
    return attempt.ended_at + timedelta(seconds=parse_duration_s(wanted))
