"""Questions to the usage book: the events themselves, page by page, and what they come to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from services.scheduler.control.usage_book import UsageBook
from services.scheduler.domain.metering import Used
from shared.clock import rfc3339
from shared.events import UsagePhase


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Which usage: all that is given must hold; `since` and `until` are about the starts of windows."""

    job: str | None = None
    project: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    visible_to: str | None = None
    visible_projects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SpellKey:
    """One phase of one role of one attempt of one job."""

    job: str
    attempt: int
    role: str
    phase: UsagePhase


@dataclass(frozen=True, slots=True)
class BillLine:
    """What one spell comes to, corrections included."""

    key: SpellKey
    job_name: str
    owner_name: str
    project: str
    instance_type: str
    pool_name: str
    price_micros_per_hour: int | None
    billable: bool
    since: str
    used: Used

    @property
    def position(self) -> tuple[str, str, int, str, str]:
        """Where it stands in the list of all lines."""
        return self.since, self.key.job, self.key.attempt, self.key.role, self.key.phase


_GROUPED = "SELECT MIN(window_start) AS since, job, attempt, role, phase, job_name, owner_name, project, instance_type,"
_SUMS = "pool_name, price_micros, billable, SUM(replica_ms), SUM(amount_micros) FROM usage"
_LINE_KEY = "(since, job, attempt, role, phase)"


@dataclass(frozen=True, slots=True)
class UsageQueries:
    """Reads the book."""

    book: UsageBook

    def events(self, wanted: UsageFilter, after: tuple[str, str] | None, limit: int) -> list[dict[str, Any]]:
        """The CloudEvents, newest window first, behind a position; one more than the limit."""
        where, values = _where(wanted)
        if after is not None:
            where, values = f"{where} AND (window_start, id) < (?, ?)", (*values, *after)
        order = "ORDER BY window_start DESC, id DESC LIMIT ?"
        rows = self._rows(f"SELECT body FROM usage WHERE {where} {order}", (*values, limit + 1))  # noqa: S608  # own text
        return [json.loads(body) for (body,) in rows]

    def lines(
        self, wanted: UsageFilter, after: tuple[str | int, ...] | None = None, limit: int | None = None
    ) -> list[BillLine]:
        """What each spell comes to, the latest first, behind a position; one more than the limit."""
        where, values = _where(wanted)
        behind = f"HAVING {_LINE_KEY} < (?, ?, ?, ?, ?)" if after else ""
        order = "ORDER BY since DESC, job DESC, attempt DESC, role DESC, phase DESC LIMIT ?"
        query = f"{_GROUPED} {_SUMS} WHERE {where} GROUP BY job, attempt, role, phase {behind} {order}"
        rows = self._rows(query, (*values, *(after or ()), -1 if limit is None else limit + 1))
        return [_line(*row) for row in rows]

    def total(self, wanted: UsageFilter) -> Used:
        """What all of it comes to."""
        where, values = _where(wanted)
        sums = "COALESCE(SUM(replica_ms), 0), COALESCE(SUM(amount_micros), 0)"
        return Used(*next(self._rows(f"SELECT {sums} FROM usage WHERE {where}", values)))  # noqa: S608  # own text

    def _rows(self, query: str, values: tuple[object, ...]) -> Iterator[tuple[Any, ...]]:
        with closing(self.book.database.execute(query, values)) as rows:
            yield from rows


def _line(
    since: str, job: str, attempt: int, role: str, phase: str, *named: Any
) -> BillLine:  # one parameter for each column
    name, owner, project, instance_type, pool, price, billable, replica_ms, amount_micros = named
    key = SpellKey(job, attempt, role, UsagePhase(phase))
    used = Used(replica_ms, amount_micros)
    return BillLine(key, name, owner, project, instance_type, pool, price, bool(billable), since, used)


def _where(wanted: UsageFilter) -> tuple[str, tuple[object, ...]]:
    clauses: list[tuple[str, tuple[object, ...]]] = [("1", ())]
    if wanted.visible_to is not None:
        projects = ", ".join("?" * len(wanted.visible_projects))
        clauses.append((f"(owner = ? OR project IN ({projects}))", (wanted.visible_to, *wanted.visible_projects)))
    if wanted.job is not None:
        clauses.append(("job = ?", (wanted.job,)))
    if wanted.project is not None:
        clauses.append(("project = ?", (wanted.project,)))
    if wanted.since is not None:
        clauses.append(("window_start >= ?", (rfc3339(wanted.since),)))
    if wanted.until is not None:
        clauses.append(("window_start < ?", (rfc3339(wanted.until),)))
    return " AND ".join(clause for clause, _ in clauses), tuple(value for _, values in clauses for value in values)
