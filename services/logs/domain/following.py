"""When a follower of a job's logs has seen everything.

The logs of an attempt are complete when the attempt has ended and every replica that was started has an end mark. An
end mark that does not come (a lost machine) is waited for only so long after the end. Then the next attempt follows, or
the end of the job is the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from services.logs.domain.cursor import Place
from shared.jobs import Attempt, Job

END_MARK_WAIT_S: Final = 15.0

Next = Literal["wait", "next-attempt", "end"]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which logs are followed: those of one attempt, or of the last one on; of one role and index, or all."""

    attempt: int | None = None
    role: str | None = None
    index: int | None = None

    def has(self, place: Place) -> bool:
        """Whether the replica at this place is followed."""
        role, index = place
        return self.role in (None, role) and self.index in (None, index)


def what_follows(
    job: Job, attempt: int, selection: Selection, complete: Mapping[Place, bool], now: datetime
) -> tuple[Next, bool]:
    """What to do when everything there is of an attempt was sent; and whether all of it had its end mark.

    `complete` has the logs that are known, and whether each has its end mark and was sent up to it.
    """
    present = next((each for each in job.attempts if each.number == attempt), None)
    if present is None:
        return ("end" if job.ended else "wait"), True
    ended_at = present.ended_at or (job.ended_at if job.ended else None)
    if ended_at is None:
        return "wait", False
    whole = all(complete.get(place, False) for place in _expected(present, selection)) and all(complete.values())
    if not whole and (now - ended_at).total_seconds() < END_MARK_WAIT_S:
        return "wait", False
    if selection.attempt is None and attempt < job.attempt.number:
        return "next-attempt", whole
    return ("end" if job.ended or selection.attempt is not None else "wait"), whole


def _expected(attempt: Attempt, selection: Selection) -> list[Place]:
    """Replicas that were started, so that their logs come."""
    started = (
        replica
        for replica in attempt.replicas.values()
        if replica.started_at is not None and (replica.exit is None or replica.exit.cause != "never-started")
    )
    return [place for replica in started if selection.has(place := (replica.role, replica.index))]
