"""`/v1/queue`: where jobs stand, and why they wait."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from services.scheduler.domain.views import standing_document
from services.scheduler.handlers.standings import StandingHandlers
from shared.http.paging import DEFAULT_LIMIT, CursorText, Limit, Page, decode_cursor, page_of
from shared.http.routing import CurrentUser, api_router

Json = dict[str, Any]


def queue_router(handlers: StandingHandlers) -> APIRouter:
    """The queue, and where each job stands."""
    router = api_router()

    @router.get("/v1/queue", tags=["queue"])
    async def list_queue(user: CurrentUser, limit: Limit = DEFAULT_LIMIT, cursor: CursorText = None) -> Page[Json]:
        """Waiting jobs that you may see, in queue order, each with what it waits for."""
        after = decode_cursor(cursor, int, int)
        found = await handlers.queue(user, (int(after[0]), int(after[1])) if after else None, limit)
        page = page_of(found, limit, lambda waiting: waiting.key)
        return Page(items=[standing_document(waiting.standing) for waiting in page.items], next=page.next)

    @router.get("/v1/queue/{job}", tags=["queue"])
    async def explain_job(user: CurrentUser, job: str) -> Json:
        """Where a job stands: what it waits for, in numbers, and what would start it."""
        return standing_document(await handlers.standing(user, job))

    return router
