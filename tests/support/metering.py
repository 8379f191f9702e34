"""A job told event by event with times of one's choice, and a stream of usage whose writer can be crashed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from services.scheduler.domain.billing import Booked, Due, due
from services.scheduler.domain.metering import Used
from shared import events as ev
from shared.events import Event
from shared.jobs import Job, Recorded, fold
from tests.support.jobs import START, role, submitted

JOB = "tj-aaaaaaaaaaaa"
PRICE = 1_000_003  # micros an hour; no window comes to whole micros


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


@dataclass
class Told:
    """One job of two replicas unless said otherwise; times are minutes after START."""

    replicas: int = 2
    price: int | None = PRICE
    job: Job | None = None
    attempt: int = 1
    sequence: int = 0

    def __post_init__(self):
        resolved = ev.Resolved(cluster="main", roles=(role(price_micros_per_hour=self.price),))
        self.tell(0, submitted(replicas=self.replicas).model_copy(update={"resolved": resolved}))

    def tell(self, minutes: float, payload: ev.Payload) -> Told:
        self.sequence += 1
        event = Event.of(
            payload,
            job=JOB,
            attempt=self.attempt,
            time=at(minutes),
            owner="u-ada",
            project="default",
            part=str(self.sequence) if payload.KIND == "obs" else "",
        )
        self.job = fold(self.job, Recorded(self.sequence, "", event))
        return self

    def place(self, minutes: float = 0, *, diagnosing: bool = False) -> Told:
        placement = ev.RolePlacement(role="worker", pool="p-public", nodes=("n-1",), node_of=(0,) * self.replicas)
        return self.tell(minutes, ev.Placed(cluster="main", roles=(placement,), diagnosing=diagnosing))

    def run(self, minutes: float = 0) -> Told:
        return self.tell(minutes, ev.Started())

    def exit(self, index: int, minutes: float, *, told_at: float | None = None) -> Told:
        change = ev.ReplicaChange(
            role="worker", index=index, state="exited", at=at(minutes), exit=ev.ReplicaExit(code=0)
        )
        return self.tell(told_at if told_at is not None else minutes, ev.ReplicasChanged(changes=(change,)))

    def end(self, minutes: float, reason: ev.EndReason = ev.EndReason.COMPLETED) -> Told:
        return self.tell(minutes, ev.AttemptEnded(reason=reason))


@dataclass
class UsageStream:
    """What is on record; a crash lets only the first few of what was due through."""

    items: list[Due] = field(default_factory=list)

    def booked(self) -> dict[str, Booked]:
        books: dict[str, Booked] = {}
        for item in self.items:
            used = Used(item.payload.replica_ms, item.payload.amount_micros)
            if isinstance(item.payload, ev.UsageCorrected):
                (id_,) = item.payload.corrects
                books[id_] = Booked(books[id_].record, books[id_].net + used, books[id_].corrections + 1)
            else:
                books[item.id] = Booked(item.payload, used)
        return books

    def settle(self, told: Told, minutes: float, *, at_most: int | None = None) -> list[Due]:
        assert told.job is not None
        missing = due(told.job, told.job.attempt, self.booked(), at(minutes))[:at_most]
        self.items += missing
        return missing

    @property
    def total(self) -> Used:
        return sum((Used(item.payload.replica_ms, item.payload.amount_micros) for item in self.items), Used())
