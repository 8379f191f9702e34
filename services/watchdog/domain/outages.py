"""The cross-job view: the same rule in several jobs that share a place, within minutes, is one platform incident.

Places of a job are where it runs (nodes, and the leaf switches that they are labelled with) and what it uses (storages,
the image). `JOBS_MIN` jobs with the same rule at the same place within `WINDOW_S` are an outage. While further jobs are
hit, each within that time of the one before, they belong to the same outage; after a quiet time the next begins.

What cannot be compared between jobs does not count: users' own messages, whose numbers mean something else in each job,
warnings, and rules that an admin has not made active.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from services.watchdog.domain.silence import HANG_WARNING
from shared.events import IncidentRaised, OutageSuspected
from shared.events.payloads.platform import PlaceKind
from shared.jobs import Attempt, Job

JOBS_MIN: Final = 3
WINDOW_S: Final = 300.0
MOST_JOBS: Final = 100
_NOT_COMMON: Final = ("message/", "given-up/")


@dataclass(frozen=True, slots=True)
class Place:
    """Something that jobs share."""

    kind: PlaceKind
    name: str


@dataclass(frozen=True, slots=True)
class Sighting:
    """A rule in a job, with the number of its record."""

    sequence: int
    job: str
    at: datetime


def counts(incident: IncidentRaised) -> bool:
    """Whether the incident can be compared between jobs."""
    is_common = not incident.rule.startswith(_NOT_COMMON) and incident.rule != HANG_WARNING
    return is_common and incident.mode == "active"


def places_of(job: Job, attempt: Attempt, incident: IncidentRaised, leaf_of: Mapping[str, str]) -> tuple[Place, ...]:
    """What the job shares with others: of its nodes those of the replica that the incident names, or all of them."""
    replica = attempt.replica(incident.replica.role, incident.replica.index) if incident.replica else None
    replicas = [replica] if replica else list(attempt.replicas.values())
    nodes = dict.fromkeys(each.where for each in replicas if each.node)
    leaves = dict.fromkeys(leaf_of[each.node] for each in replicas if each.node in leaf_of)
    resolved = job.submitted.resolved
    storages = dict.fromkeys(mount.source for mount in resolved.mounts if mount.type == "storage")
    images = [resolved.image.address] if resolved.image else []
    return (
        *(Place("node", node) for node in nodes),
        *(Place("leaf", leaf) for leaf in leaves),
        *(Place("storage", storage) for storage in storages),
        *(Place("image", image) for image in images),
    )


def suspect(
    rule: str, place: Place, sightings: Iterable[Sighting], line: str, now: datetime
) -> tuple[OutageSuspected, int] | None:
    """The outage that these sightings of the rule at the place make, with the number of the first; None: none yet."""
    recent = [each for each in sightings if now - each.at <= timedelta(seconds=WINDOW_S)]
    in_order = sorted(recent, key=lambda each: each.sequence)
    jobs = tuple(dict.fromkeys(each.job for each in in_order))
    if len(jobs) < JOBS_MIN:
        return None
    outage = OutageSuspected(
        rule=rule,
        place_kind=place.kind,
        place=place.name,
        jobs=jobs[:MOST_JOBS],
        line=line,
        since=min(each.at for each in in_order),
        at=now,
    )
    return outage, in_order[0].sequence
