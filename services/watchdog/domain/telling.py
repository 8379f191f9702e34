"""Incidents of lines that were found, and how many of them are told of one attempt.

A gang of thousands may print the same line everywhere. Every find is remembered and counts in the decision; told are
those of a few replicas for each rule, and no more than so many of an attempt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from services.watchdog.domain.matching import Hit
from services.watchdog.domain.policy import Found
from shared.events import IncidentRaised, ReplicaRef

TOLD_OF_RULE: Final = 5
TOLD_OF_ATTEMPT: Final = 100


def is_told(hit: Hit, earlier: Iterable[Found]) -> bool:
    """Whether a find becomes an incident, after these others of the same attempt."""
    count = Counter(each.rule for each in earlier)
    told = sum(min(number, TOLD_OF_RULE) for number in count.values())
    return count[hit.rule] < TOLD_OF_RULE and told < TOLD_OF_ATTEMPT


def incident_of(hit: Hit, replica: ReplicaRef, at: datetime) -> IncidentRaised:
    """The incident of a find."""
    return IncidentRaised(rule=hit.rule, line=hit.line, before=hit.before, replica=replica, at=at)


def part_of(hit: Hit, replica: ReplicaRef) -> str:
    """What tells this incident from the others of the attempt in the id of its event."""
    return f"{hit.rule}/{replica.role}/{replica.index}"
