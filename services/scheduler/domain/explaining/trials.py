"""Planning the present cycle as it is, and again with one gang changed: the way to know what would start it.

Every trial is a whole cycle, with everybody else in the queue. The queue is sorted once: a trial changes one or two
gangs of a copy of it, and puts them back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from services.scheduler.domain.gang import Gang
from services.scheduler.domain.planning.plan import Plan, Snapshot, Start, plan
from services.scheduler.domain.planning.reserve import Reservation
from services.scheduler.domain.planning.waiting import Queue


@dataclass(frozen=True)
class Trials:
    """Plans for one moment."""

    snapshot: Snapshot
    now: datetime

    @cached_property
    def plan(self) -> Plan:
        """The plan of the cycle as it is."""
        return plan(self.snapshot, self.now)

    def start(self, gang: Gang, *, without: str = "") -> Start | None:
        """How the gang starts if it waits in place of its job's own; without the gang of another job, where given."""
        queue = self._queue
        before = [known for job in (gang.job, without) if (known := self.snapshot.queue.get(job)) is not None]
        queue.remove(without)
        queue.add(gang)
        decided = plan(replace(self.snapshot, queue=queue), self.now)
        queue.remove(gang.job)
        for other in before:
            queue.add(other)
        return next((start for start in decided.starts if start.gang.job == gang.job), None)

    @cached_property
    def _queue(self) -> Queue:
        """The queue of the snapshot, to be changed by trials."""
        return Queue(self.snapshot.queue)

    def reservation(self, job: str) -> Reservation | None:
        """The place that is kept for the job's gang."""
        return next((kept for kept in self.plan.reservations if kept.gang.job == job), None)
