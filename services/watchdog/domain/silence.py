"""Telling a hang from work: how long every replica of a running attempt has been silent, and what is said about it.

Bytes count, not lines, so a progress bar that never ends its line is output. Silence counts from the last byte of any
replica, or from when all replicas ran. A third of the limit is worth a warning; the limit itself is a hang, which ends
the attempt where the job asks for a retry, and is only told where it does not. Each silence is told once: the sentence
names its beginning, so what is on record says whether it was told.

What is not heard is not silent: `Hearing` says from when on the watchdog has certainly heard every replica. After a
start, a lost connection, or a clock that jumped (a laptop that slept), bytes may still be on their way, and nothing is
concluded for some seconds. The silence itself goes on counting meanwhile, from the same last byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from services.watchdog.domain.terms import Terms
from shared.clock import rfc3339
from shared.events import IncidentRaised
from shared.jobs import Job, JobState
from shared.units import format_duration

HANG: Final = "hang"
HANG_WARNING: Final = "hang/warning"
SILENCE_RULES: Final = (HANG, HANG_WARNING)
WARN_AT: Final = 1 / 3
SETTLE_S: Final = 10.0
JUMP_S: Final = 5.0
TOLD_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Hearing:
    """Whether silence may be believed: `since` when nothing has kept bytes from being heard; None: something does."""

    since: datetime | None = None
    looked_at: datetime | None = None

    def looked(self, now: datetime, *, hears: bool) -> Hearing:
        """After a look at this time; `hears`: bytes come in, and those that waited have come."""
        jumped = self.looked_at is not None and not 0 <= (now - self.looked_at).total_seconds() <= JUMP_S
        if not hears:
            return Hearing(None, now)
        return Hearing(now if self.since is None or jumped else self.since, now)

    def settled(self, now: datetime) -> bool:
        """Whether bytes that were on their way have had the time to arrive."""
        return self.since is not None and (now - self.since).total_seconds() >= SETTLE_S


def is_listened_to(job: Job, terms: Terms) -> bool:
    """Whether silence of the job means anything now."""
    return terms.silence_s is not None and job.state is JobState.RUNNING and job.attempt.ended is None


def silent_since(job: Job, last_output_at: datetime | None) -> datetime | None:
    """When the present silence began; None before every replica ran."""
    started_at = job.attempt.started_at
    return max(started_at, last_output_at or started_at) if started_at else None


def judge(job: Job, terms: Terms, last_output_at: datetime | None, now: datetime) -> IncidentRaised | None:
    """What is to be told about the job's silence now; None where there is nothing, or nothing new."""
    since = silent_since(job, last_output_at)
    if since is None or terms.silence_s is None or not is_listened_to(job, terms):
        return None
    silent_s = (now - since).total_seconds()
    if silent_s >= terms.silence_s:
        return _untold(job, _hang(terms, terms.silence_s, since, now))
    if silent_s >= terms.silence_s * WARN_AT:
        return _untold(job, _incident(HANG_WARNING, terms.silence_s * WARN_AT, since, now))
    return None


def _hang(terms: Terms, silence_s: float, since: datetime, now: datetime) -> IncidentRaised:
    incident = _incident(HANG, silence_s, since, now)
    return incident.model_copy(update={"action": "stop"}) if terms.retries_hangs else incident


def _incident(rule: str, limit_s: float, since: datetime, now: datetime) -> IncidentRaised:
    line = f"no replica has written anything for {format_duration(limit_s)}, since {rfc3339(since)}"
    return IncidentRaised(rule=rule, line=line, at=now)


def _untold(job: Job, incident: IncidentRaised) -> IncidentRaised | None:
    told = [each for each in job.attempt.incidents if each.rule == incident.rule]
    is_known = any(each.line == incident.line for each in told)
    return None if is_known or (len(told) >= TOLD_MAX and incident.action == "none") else incident


def part_of(incident: IncidentRaised, since: datetime) -> str:
    """What tells one silence from another in the id of its event."""
    return f"{incident.rule}/{int(since.timestamp() * 1000)}"
