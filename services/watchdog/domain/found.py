"""Lines that were found in the logs of an attempt, put on one time line.

Of each rule the first line of a replica's log is kept, and the last one. An error that was told and overcome is no
cause of an end that came later: where the replica made progress for more than `SURVIVED_S` after the last such line, it
survived that. Where it made progress after the first line but not after the last, the last one is what counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shared.events import ReplicaRef

SURVIVED_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Sighting:
    """One line: when it was there by the platform's clock, and where in the log."""

    line: str
    at_ms: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """A rule that was found in the log of a replica."""

    rule: str
    replica: ReplicaRef
    line: str
    at_ms: int = 0
    offset: int = 0
    survived: bool = False

    @classmethod
    def of(
        cls, rule: str, replica: ReplicaRef, first: Sighting, last: Sighting, progress_at_ms: int | None = None
    ) -> Found:
        """What counts of the two lines, when progress was last made at this time."""
        made_progress_until = (progress_at_ms or 0) - SURVIVED_S * 1000
        counts = first if first.at_ms >= made_progress_until else last
        return cls(rule, replica, counts.line, counts.at_ms, counts.offset, last.at_ms < made_progress_until)
