"""`usage`: what jobs used and cost, and what became of a verification."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from trainmaster.rendering.amounts import money
from trainmaster.rendering.moments import duration
from trainmaster.rendering.style import table, text
from trainmaster.usage import Bill, BillLine, Comparison, Used, Verification

JOBS: Final = ("NAME", "ID", "PROJECT", "OWNER", "REPLICA TIME", "AMOUNT")
ROLES: Final = ("ATTEMPT", "ROLE", "PHASE", "INSTANCE TYPE", "POOL", "PRICE/HOUR", "REPLICA TIME", "AMOUNT")
VERIFIED: Final = ("JOB", "ATTEMPT", "ROLE", "PHASE", "RECORDED", "RECOMPUTED", "VERDICT")
_VERDICT_STYLES: Final = {"same": "green", "open": "yellow", "different": "bold red"}


def bill_of_job(bill: Bill) -> RenderableType:
    """A line for each phase of each role of each attempt."""
    ordered = sorted(bill.lines, key=lambda line: (line.attempt, line.role, line.phase))
    return _with_total(table(ROLES, map(_role_row, ordered)), bill)


def bill_of_jobs(bill: Bill) -> RenderableType:
    """A line for each job."""
    by_job: dict[str, list[BillLine]] = {}
    for line in bill.lines:
        by_job.setdefault(line.job, []).append(line)
    return _with_total(table(JOBS, map(_job_row, by_job.values())), bill)


def verification(verified: Iterable[Verification]) -> RenderableType:
    """A line for each thing that is not the same."""
    rows = [_verified_row(one, found) for one in verified for found in one.comparisons if found.verdict != "same"]
    return table(VERIFIED, rows)


def replica_time(used: Used) -> str:
    """Replica time for people: `2h05m`."""
    return ("-" if used.replica_ms < 0 else "") + duration(abs(used.replica_ms) / 1000)


def _role_row(line: BillLine) -> tuple[object, ...]:
    price = "" if line.price_micros_per_hour is None else money(line.price_micros_per_hour)
    amount = money(line.used.amount_micros) if line.billable else "not billed"
    place = (line.attempt, line.role, line.phase, line.instance_type, line.pool)
    return *place, price, replica_time(line.used), amount


def _job_row(lines: Sequence[BillLine]) -> tuple[object, ...]:
    first, used = lines[0], _billed(lines)
    return first.job_name, first.job, first.project, first.owner, replica_time(used), money(used.amount_micros)


def _billed(lines: Iterable[BillLine]) -> Used:
    """What was running; the time before that is not billed and not shown in sums."""
    return sum((line.used for line in lines if line.phase == "running"), Used())


def _with_total(lines: RenderableType, bill: Bill) -> Group:
    total = _billed(bill.lines)
    parts = [lines, Text(), Text(f"Total {money(total.amount_micros)} for {replica_time(total)} of running replicas")]
    if bill.accrued is not None and bill.accrued.amount_micros:
        parts.append(text(f"and {money(bill.accrued.amount_micros)} since, not on record yet", "dim"))
    return Group(*parts)


def _verified_row(verified: Verification, found: Comparison) -> tuple[object, ...]:
    place = (verified.job_name, found.attempt, found.role, found.phase)
    told = Text(found.verdict, style=_VERDICT_STYLES.get(found.verdict, ""))
    return *place, _both(found.recorded), _both(found.recomputed), told


def _both(used: Used) -> str:
    return f"{money(used.amount_micros)} for {used.replica_ms / 1000:.3f}s"
