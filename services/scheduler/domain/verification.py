"""Does the bill say what the events say? Sums of the usage records against totals computed straight from the job.

The totals are computed without windows, records or corrections, so that a mistake in any of these shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from services.scheduler.domain.metering import Used, totals
from shared.events import UsagePhase
from shared.jobs import Attempt, Job

# An end is metered at once; while NATS or the scheduler is slow, this is no difference yet.
PATIENCE: Final = timedelta(minutes=1)

Key = tuple[int, str, UsagePhase]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One phase of one role of one attempt; `open` where more is still to be recorded."""

    attempt: int
    role: str
    phase: UsagePhase
    recorded: Used
    recomputed: Used
    verdict: Literal["same", "open", "different"]


def compare(job: Job, recorded: Mapping[Key, Used], now: datetime) -> list[Comparison]:
    """Every spell that is in the events or on record."""
    attempts = {attempt.number: attempt for attempt in job.attempts}
    recomputed: dict[Key, Used] = {
        (number, role, phase): used
        for number, attempt in attempts.items()
        for (role, phase), used in totals(job, attempt, now).items()
    }
    found = []
    for key in sorted(recorded.keys() | recomputed.keys()):
        told, computed = recorded.get(key, Used()), recomputed.get(key, Used())
        more_may_come = key in recomputed and _is_open(attempts[key[0]], now)
        differing: Literal["open", "different"] = "open" if more_may_come else "different"
        found.append(Comparison(*key, told, computed, "same" if told == computed else differing))
    return found


def _is_open(attempt: Attempt, now: datetime) -> bool:
    return attempt.ended_at is None or now < attempt.ended_at + PATIENCE
