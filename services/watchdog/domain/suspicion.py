"""What is told of nodes that an attempt failed on: an event for each, on the stream of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from services.watchdog.domain.policy import suspects
from shared.catalog.places import Cluster
from shared.events import Event, NodeSuspected, RetryDecided
from shared.jobs import Job


def suspicions(job: Job, decision: RetryDecided, now: datetime) -> Iterator[tuple[Event, str]]:
    """Events with their subjects, one for each node that the cause speaks against, whether or not there is a retry."""
    cause, placement = decision.cause, job.attempt.placement
    if cause is None or placement is None:
        return
    for node in suspects(cause):
        fact = NodeSuspected(
            cluster=placement.cluster,
            node=node,
            job=job.id,
            attempt=job.attempt.number,
            rule=cause.rule,
            line=cause.line,
            at=cause.at,
        )
        event = Event.of(
            fact, job=node, attempt=job.attempt.number, time=now, owner=job.owner, project=job.project, part=job.id
        )
        yield event, f"tm.node.{Cluster.id_of(placement.cluster)}.{node}.{fact.SUFFIX}"
