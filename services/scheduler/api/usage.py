"""`/v1/usage`: usage events, the bill that they make, and its verification."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict

from services.scheduler.control.usage_queries import BillLine, UsageFilter
from services.scheduler.domain.metering import Used
from services.scheduler.domain.verification import Comparison
from services.scheduler.handlers.usage import UsageHandlers, Verified
from shared.http.paging import DEFAULT_LIMIT, CursorText, Limit, Page, decode_cursor, encode_cursor, page_of
from shared.http.routing import CurrentUser, api_router

Json = dict[str, Any]
JobText = Annotated[str | None, Query(description="name or id of a job")]
ProjectText = Annotated[str | None, Query(description="name of a project")]


def _in_utc(time: datetime) -> datetime:
    """A time next to the first or the last year can lie outside of all years in UTC."""
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("in UTC it lies outside of the years 1 to 9999") from None


UtcTime = Annotated[AwareDatetime, AfterValidator(_in_utc)]
From = Annotated[UtcTime | None, Query(alias="from", description="windows that begin at this time or later")]
To = Annotated[UtcTime | None, Query(description="windows that begin before this time")]


class BillPage(BaseModel):
    """Lines of a bill; `total` is that of all lines, on this page or not."""

    model_config = ConfigDict(frozen=True)

    items: list[Json]
    next: str | None = None
    total: Json
    accrued: Json | None = None


def usage_router(handlers: UsageHandlers) -> APIRouter:
    """Usage of the jobs that the asker may see."""
    router = api_router()

    @router.get("/v1/usage", tags=["usage"])
    async def list_usage(
        user: CurrentUser,
        job: JobText = None,
        project: ProjectText = None,
        since: From = None,
        to: To = None,
        limit: Limit = DEFAULT_LIMIT,
        cursor: CursorText = None,
    ) -> Page[Json]:
        """Records and corrections as CloudEvents, the newest window first."""
        after = decode_cursor(cursor, str, str)
        wanted = UsageFilter(job, project, since, to)
        found = handlers.events(user, wanted, (str(after[0]), str(after[1])) if after else None, limit)
        return page_of(found, limit, lambda event: (event["data"]["windowStart"], event["id"]))

    @router.get("/v1/usage/bill", tags=["usage"])
    async def show_bill(
        user: CurrentUser,
        job: JobText = None,
        project: ProjectText = None,
        since: From = None,
        to: To = None,
        limit: Limit = DEFAULT_LIMIT,
        cursor: CursorText = None,
    ) -> BillPage:
        """What each role of each attempt comes to, corrections included, and all of it together."""
        after = decode_cursor(cursor, str, str, int, str, str)
        bill = handlers.bill(user, UsageFilter(job, project, since, to), after, limit)
        page = page_of(bill.lines, limit, lambda line: line.position)
        accrued = used_document(bill.accrued) if bill.accrued is not None else None
        items = [line_document(line) for line in page.items]
        return BillPage(items=items, next=page.next, total=used_document(bill.total), accrued=accrued)

    @router.get("/v1/usage/verification", tags=["usage"])
    async def verify_usage(user: CurrentUser, job: JobText = None, cursor: CursorText = None) -> Page[Json]:
        """Recompute usage from the events of a job, or of all jobs page by page, and compare it with the records."""
        if job is not None:
            return Page(items=[verified_document(await handlers.verify(user, job))])
        after = decode_cursor(cursor, str, str)
        found, behind = await handlers.verify_page(user, (str(after[0]), str(after[1])) if after else None)
        following = encode_cursor(behind) if behind else None
        return Page(items=[verified_document(verified) for verified in found], next=following)

    return router


def used_document(used: Used) -> Json:
    """An amount of usage."""
    return {"replicaMs": used.replica_ms, "amountMicros": used.amount_micros}


def line_document(line: BillLine) -> Json:
    """One line of a bill."""
    return {
        "job": line.key.job,
        "jobName": line.job_name,
        "owner": line.owner_name,
        "project": line.project,
        "attempt": line.key.attempt,
        "role": line.key.role,
        "phase": line.key.phase,
        "instanceType": line.instance_type,
        "pool": line.pool_name,
        "priceMicrosPerHour": line.price_micros_per_hour,
        "billable": line.billable,
        "since": line.since,
        **used_document(line.used),
    }


def verified_document(verified: Verified) -> Json:
    """What became of one job's comparison."""
    return {
        "job": verified.job.id,
        "jobName": verified.job.name,
        "differs": any(comparison.verdict == "different" for comparison in verified.comparisons),
        "comparisons": [_comparison_document(comparison) for comparison in verified.comparisons],
    }


def _comparison_document(comparison: Comparison) -> Json:
    return {
        "attempt": comparison.attempt,
        "role": comparison.role,
        "phase": comparison.phase,
        "verdict": comparison.verdict,
        "recorded": used_document(comparison.recorded),
        "recomputed": used_document(comparison.recomputed),
    }
