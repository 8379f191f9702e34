"""What billing reads: usage metered and usage corrected."""

from __future__ import annotations

from typing import Literal

from shared.events.facts import Time, UsagePhase
from shared.events.payloads.base import Payload


class Usage(Payload):
    """What a role used in one window of ten minutes; amounts are integers, in millionths of the one currency."""

    KIND = "usage"
    AUTHOR = "scheduler"

    job_name: str
    owner_name: str
    role: str
    phase: UsagePhase
    window_start: Time
    window_end: Time
    instance_type: str
    gpu_model: str | None = None
    gpu_count: int = 0
    pool: str
    pool_name: str
    price_micros_per_hour: int | None = None
    billable: bool
    replica_ms: int
    amount_micros: int


class UsageMetered(Usage):
    """The window is closed, or the attempt has ended: so much was used."""

    TYPE = "trainmaster.usage.metered.v1"
    SUFFIX = "usage.metered"


class UsageCorrected(Usage):
    """An earlier record is to count for more or less: `replicaMs` and `amountMicros` are to be added to it."""

    TYPE = "trainmaster.usage.corrected.v1"
    SUFFIX = "usage.corrected"

    corrects: tuple[str, ...]
    reason: Literal["platform", "late-facts"]
