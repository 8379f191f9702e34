"""Which usage events are still to be published: what was read, less what is on record.

The stream is the only memory. For each window that can be read and has no record one is due. When an attempt has ended,
every record of it is compared with what it should be now, and a difference is a correction that names the record: an
attempt that was lost to the platform is credited whole, and where something became known only after a window had been
written (the platform was away while a replica ended) the difference is settled. Nothing is edited, and asking again
after a crash, at any point, gives what is missing and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from services.scheduler.domain.metering import Reading, Used, from_ms, is_credited, readings
from shared.events import Event, Usage, UsageCorrected, UsageMetered
from shared.jobs import Attempt, Job


@dataclass(frozen=True, slots=True)
class Booked:
    """What is on record about one window: the record itself, and what corrections have made of it."""

    record: Usage
    net: Used
    corrections: int = 0


@dataclass(frozen=True, slots=True)
class Due:
    """A usage event that is missing."""

    id: str
    payload: Usage

    def event(self, job: Job, attempt: int, now: datetime) -> Event:
        """The event as it is published."""
        return Event(
            id=self.id,
            source=f"/trainmaster/{self.payload.AUTHOR}",
            type=self.payload.TYPE,
            subject=job.id,
            time=now,
            traceparent=job.traceparent,
            owner=job.owner,
            project=job.project,
            attempt=attempt,
            data=self.payload,
        )


def due(job: Job, attempt: Attempt, booked: Mapping[str, Booked], now: datetime) -> list[Due]:
    """What is missing of the attempt's usage events, in the order in which to publish it."""
    read = {reading.id: reading for reading in readings(job, attempt, now)}
    missing = [Due(id_, _record(job, reading)) for id_, reading in read.items() if id_ not in booked]
    if attempt.ended is None:
        return missing
    added = {item.id: Booked(item.payload, _used(item.payload)) for item in missing}
    return [*missing, *_corrections(attempt, {**booked, **added}, read)]


def _corrections(attempt: Attempt, booked: Mapping[str, Booked], read: Mapping[str, Reading]) -> Iterator[Due]:
    for id_, found in booked.items():
        reading = read.get(id_)
        credited = reading is not None and is_credited(reading.spell, attempt)
        wanted = Used() if reading is None or credited else reading.used
        if wanted != found.net:
            number = found.corrections + 1
            reason: Literal["platform", "late-facts"] = "platform" if credited else "late-facts"
            yield Due(f"{id_}/correction/{number}", _correction(id_, found.record, wanted - found.net, reason))


def _record(job: Job, reading: Reading) -> UsageMetered:
    role = reading.spell.role
    return UsageMetered(
        job_name=job.name,
        owner_name=job.submitted.owner_name,
        role=role.name,
        phase=reading.spell.phase,
        window_start=from_ms(reading.start_ms),
        window_end=from_ms(reading.end_ms),
        instance_type=role.instance_type,
        gpu_model=role.gpu_model,
        gpu_count=role.gpu_count,
        pool=role.pool,
        pool_name=role.pool_name,
        price_micros_per_hour=role.price_micros_per_hour,
        billable=reading.spell.billable,
        replica_ms=reading.used.replica_ms,
        amount_micros=reading.used.amount_micros,
    )


def _correction(
    record_id: str, record: Usage, change: Used, reason: Literal["platform", "late-facts"]
) -> UsageCorrected:
    same = record.model_dump(include=set(Usage.model_fields) - {"replica_ms", "amount_micros"})
    return UsageCorrected(
        **same,
        replica_ms=change.replica_ms,
        amount_micros=change.amount_micros,
        corrects=(record_id,),
        reason=reason,
    )


def _used(payload: Usage) -> Used:
    return Used(payload.replica_ms, payload.amount_micros)
