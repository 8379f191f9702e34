"""Telling a hang from work: how long every replica of a running attempt has been silent, and what is said about it.

Bytes count, not lines, so a progress bar that never ends its line is output. Silence counts from the last byte of any
replica, or from when all replicas ran. How long it is borne:

- `silence` of the spec; in a declared phase that has a limit of its own, that one. Replicas may be in different phases:
  the longest limit of those that still run holds, as the others may be waiting for that one.
- `exitSilence` once a replica whose success the job needs has ended well while others go on: what is left is mostly a
  barrier that waits for the one that has gone.

A third of the limit is worth a warning; the limit itself is a hang, which ends the attempt where the job asks for a
retry, and is only told where it does not. Each silence is told once: the sentence names its beginning, so what is on
record says whether it was told.

What is not heard is not silent: `Hearing` says from when on the watchdog has certainly heard every replica. After a
start, a lost connection, or a clock that jumped (a laptop that slept), bytes may still be on their way, and nothing is
concluded for some seconds. The silence itself goes on counting meanwhile, from the same last byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from services.watchdog.domain.terms import Terms
from shared.clock import rfc3339
from shared.events import IncidentRaised
from shared.jobs import Attempt, Job, JobState
from shared.units import format_duration

HANG: Final = "hang"
HANG_FROM_START: Final = "hang/never-printed"
HANG_AT_EXIT: Final = "hang/exit"
HANG_WARNING: Final = "hang/warning"
SILENCE_RULES: Final = (HANG, HANG_FROM_START, HANG_AT_EXIT, HANG_WARNING)
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


@dataclass(frozen=True, slots=True)
class Heard:
    """What was heard of an attempt: its last byte, and the phase that each replica (`role-index`) declared last."""

    last_output_at: datetime | None = None
    phases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Silence:
    """The present silence of an attempt: since when, how long it is borne, as what it is told then, and why so long."""

    since: datetime
    limit_s: float
    rule: str
    why: str = ""


def is_listened_to(job: Job, terms: Terms) -> bool:
    """Whether silence of the job means anything now."""
    return terms.silence_s is not None and job.state is JobState.RUNNING and job.attempt.ended is None


def silence_of(job: Job, terms: Terms, heard: Heard) -> Silence | None:
    """The silence of a job that is listened to; None before every replica ran."""
    started_at = job.attempt.started_at
    if started_at is None or terms.silence_s is None or not is_listened_to(job, terms):
        return None
    limit_s, phase = _longest_borne(job.attempt, terms.silence_s, terms, heard)
    since = max(started_at, heard.last_output_at or started_at)
    rule, why = HANG if heard.last_output_at else HANG_FROM_START, f" in phase {phase}" if phase else ""
    silence = Silence(since, limit_s, rule, why)
    at_exit = _at_exit(job.attempt, terms, silence)
    return at_exit if at_exit is not None and at_exit.limit_s < silence.limit_s else silence


def judge(job: Job, silence: Silence | None, now: datetime, *, stops: bool) -> IncidentRaised | None:
    """What is to be told about a silence now; None where there is nothing, or nothing new. `stops`: a hang ends it."""
    if silence is None:
        return None
    silent_s = (now - silence.since).total_seconds()
    if silent_s >= silence.limit_s:
        incident = _incident(silence.rule, silence.limit_s, silence, now)
        return _untold(job, incident.model_copy(update={"action": "stop"}) if stops else incident)
    if silent_s >= silence.limit_s * WARN_AT:
        return _untold(job, _incident(HANG_WARNING, silence.limit_s * WARN_AT, silence, now))
    return None


def part_of(incident: IncidentRaised, silence: Silence) -> str:
    """What tells one silence from another in the id of its event."""
    return f"{incident.rule}/{int(silence.since.timestamp() * 1000)}"


def _longest_borne(attempt: Attempt, silence_s: float, terms: Terms, heard: Heard) -> tuple[float, str]:
    """The longest limit of those replicas that still run, and the phase that it is of, or nothing."""
    declared = [heard.phases.get(key, "") for key, replica in attempt.replicas.items() if replica.exit is None]
    limits = [(terms.phases[phase], phase) if phase in terms.phases else (silence_s, "") for phase in declared]
    return max(limits, default=(silence_s, ""))


def _at_exit(attempt: Attempt, terms: Terms, silence: Silence) -> Silence | None:
    """The silence after a replica has ended well, where others that the job needs have not ended."""
    needed = [replica for replica in attempt.replicas.values() if replica.role in terms.deciding_roles]
    ended = [each.ended_at for each in needed if each.exit and each.exit.succeeded and each.ended_at]
    if not ended or len(ended) == len(needed) or terms.exit_silence_s is None:
        return None
    why = f" after {len(ended)} of {len(needed)} replicas ended well"
    return Silence(max(silence.since, *ended), terms.exit_silence_s, HANG_AT_EXIT, why)


def _incident(rule: str, limit_s: float, silence: Silence, now: datetime) -> IncidentRaised:
    ever = "has ever written anything, for" if silence.rule == HANG_FROM_START else "has written anything for"
    line = f"no replica {ever} {format_duration(limit_s)}{silence.why}, since {rfc3339(silence.since)}"
    return IncidentRaised(rule=rule, line=line, at=now)


def _untold(job: Job, incident: IncidentRaised) -> IncidentRaised | None:
    told = [each for each in job.attempt.incidents if each.rule == incident.rule]
    is_known = any(each.line == incident.line for each in told)
    return None if is_known or (len(told) >= TOLD_MAX and incident.action == "none") else incident
