"""Planning the present cycle as it is, and again with one gang changed: the way to know what would start it."""

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
        others = (other for other in self.snapshot.queue if other.job not in (gang.job, without))
        tried = replace(self.snapshot, queue=Queue((*others, gang)))
        return next((start for start in plan(tried, self.now).starts if start.gang.job == gang.job), None)

    def reservation(self, job: str) -> Reservation | None:
        """The place that is kept for the job's gang."""
        return next((kept for kept in self.plan.reservations if kept.gang.job == job), None)
