"""Incidents of lines that were found, and how many of them are told of one attempt.

A gang of thousands may print the same line everywhere. Every find is remembered and counts in the decision; told are
those of a few replicas for each rule, and no more than so many of an attempt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from services.watchdog.domain.matching import Hit
from services.watchdog.domain.rules import FailureClass, Rule
from services.watchdog.domain.torchrun import ROOT_CAUSE
from shared.events import IncidentRaised, ReplicaRef

TOLD_OF_RULE: Final = 5
TOLD_OF_ATTEMPT: Final = 100


def are_told(hits: Iterable[Hit], earlier: Iterable[str], rules: Mapping[str, Rule]) -> Iterator[Hit]:
    """Those of a log's new finds that become incidents, after rules that were found in the same attempt before.

    Of rules that hold on one line the first is told; what is only worth a note, and torchrun's own summary, is not.
    """
    count = Counter(earlier)
    last_offset: int | None = None
    for hit in hits:
        if hit.again or hit.rule == ROOT_CAUSE or _is_note(rules.get(hit.rule)):
            continue
        told = sum(min(number, TOLD_OF_RULE) for number in count.values())
        if hit.offset != last_offset and count[hit.rule] < TOLD_OF_RULE and told < TOLD_OF_ATTEMPT:
            yield hit
        last_offset = hit.offset
        count[hit.rule] += 1


def incident_of(
    hit: Hit, replica: ReplicaRef, at: datetime, rule: Rule | None, *, shadow: bool = False
) -> IncidentRaised:
    """The incident of a find; `rule` where it is one of the catalogue's; `shadow`: it is only being tried."""
    return IncidentRaised(
        rule=hit.rule,
        line=hit.line,
        before=hit.before,
        replica=replica,
        at=at,
        mode="shadow" if shadow else "active",
        failure_class=rule.failure_class if rule else None,
        severity=rule.severity if rule else None,
        advice=rule.advice if rule else "",
    )


def _is_note(rule: Rule | None) -> bool:
    return rule is not None and rule.failure_class is FailureClass.INFO


def part_of(hit: Hit, replica: ReplicaRef) -> str:
    """What tells this incident from the others of the attempt in the id of its event."""
    return f"{hit.rule}/{replica.role}/{replica.index}"
