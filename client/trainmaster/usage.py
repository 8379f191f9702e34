"""What the platform says about usage, as frozen values: bills with their lines, and verifications.

Amounts are whole millionths of the platform's one currency, replica time whole milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from trainmaster.decoding import Document, Fields


@dataclass(frozen=True, slots=True)
class Used:
    """Replica time and what it costs."""

    replica_ms: int = 0
    amount_micros: int = 0

    def __add__(self, other: Used) -> Used:
        return Used(self.replica_ms + other.replica_ms, self.amount_micros + other.amount_micros)

    @classmethod
    def of(cls, fields: Fields) -> Self:
        """The usage in a JSON object."""
        return cls(fields.integer("replicaMs"), fields.integer("amountMicros"))


@dataclass(frozen=True, slots=True)
class BillLine:
    """What one phase of one role of one attempt comes to, corrections included."""

    job: str
    job_name: str
    owner: str
    project: str
    attempt: int
    role: str
    phase: str
    instance_type: str
    pool: str
    price_micros_per_hour: int | None
    billable: bool
    used: Used

    @classmethod
    def of(cls, fields: Fields) -> Self:
        """The line in a JSON object."""
        return cls(
            job=fields.text("job"),
            job_name=fields.text("jobName"),
            owner=fields.text("owner"),
            project=fields.text("project"),
            attempt=fields.integer("attempt"),
            role=fields.text("role"),
            phase=fields.text("phase"),
            instance_type=fields.text("instanceType"),
            pool=fields.text("pool"),
            price_micros_per_hour=fields.optional_integer("priceMicrosPerHour"),
            billable=fields.flag("billable"),
            used=Used.of(fields),
        )


@dataclass(frozen=True, slots=True)
class Bill:
    """All lines, what they come to, and what a single job has used beyond what is on record (None: not asked for)."""

    lines: tuple[BillLine, ...]
    total: Used
    accrued: Used | None
    document: Document

    @classmethod
    def of(cls, pages: Iterable[Document]) -> Self:
        """The bill that the pages of `/v1/usage/bill` make together."""
        read = [Fields.of(page) for page in pages]
        items = [item for page in read for item in page.each("items")]
        total, accrued = read[-1].fields("total"), read[-1].fields("accrued")
        document: Document = {"items": [dict(item.document) for item in items], "total": dict(total.document)}
        if accrued.document:
            document["accrued"] = dict(accrued.document)
        lines = tuple(map(BillLine.of, items))
        return cls(lines, Used.of(total), Used.of(accrued) if accrued.document else None, document)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is on record about one phase of one role of one attempt, and what the events of the job come to."""

    attempt: int
    role: str
    phase: str
    verdict: str
    recorded: Used
    recomputed: Used

    @classmethod
    def of(cls, fields: Fields) -> Self:
        """The comparison in a JSON object."""
        return cls(
            attempt=fields.integer("attempt"),
            role=fields.text("role"),
            phase=fields.text("phase"),
            verdict=fields.text("verdict"),
            recorded=Used.of(fields.fields("recorded")),
            recomputed=Used.of(fields.fields("recomputed")),
        )


@dataclass(frozen=True, slots=True)
class Verification:
    """What became of one job's comparison."""

    job: str
    job_name: str
    differs: bool
    comparisons: tuple[Comparison, ...]
    document: Document

    @classmethod
    def of(cls, fields: Fields) -> Self:
        """One entry of `/v1/usage/verification`."""
        comparisons = tuple(map(Comparison.of, fields.each("comparisons")))
        document = dict(fields.document)
        return cls(fields.text("job"), fields.text("jobName"), fields.flag("differs"), comparisons, document)
