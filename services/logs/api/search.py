"""`/v1/log-search`: which lines of which logs hold a pattern, told as they are found."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from services.logs.api.documents import LastEventId, SearchQuery
from services.logs.search import SearchHandlers
from shared.http.routing import CurrentUser, api_router
from shared.http.sse import EventStream


def search_router(handlers: SearchHandlers) -> APIRouter:
    """The route about searching."""
    router = api_router()

    @router.get("/v1/log-search", tags=["logs"], response_class=EventStream)
    async def search_logs(
        user: CurrentUser, query: Annotated[SearchQuery, Query()], last_event_id: LastEventId = None
    ) -> Response:
        """Events `match`, `progress`, and one `end` whose `next` is the cursor of what was not searched yet."""
        cursor = last_event_id or query.cursor
        return EventStream(await handlers.search(user, query.scope, query.sought, query.limit, cursor))

    return router
