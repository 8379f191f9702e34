"""`/v1/notifications`: who is told of what, and how the deliveries stand."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body
from starlette.responses import Response

from services.watchdog.subscribing import NotificationHandlers
from shared.http.answers import PageQuery, entries_answer, entry_answer
from shared.http.etag import IfMatch
from shared.http.routing import CurrentUser, api_router


def notifications_router(handlers: NotificationHandlers) -> APIRouter:
    """The routes about notifications."""
    router = api_router()

    @router.get("/v1/notifications", tags=["notifications"])
    async def list_notifications(user: CurrentUser, query: PageQuery) -> Response:
        """Your notifications, by name; all for admins."""
        return entries_answer(await handlers.visible(user), query)

    @router.get("/v1/notifications/{name}", tags=["notifications"])
    async def get_notification(user: CurrentUser, name: str) -> Response:
        """One of them, with how its deliveries of the last week stand."""
        return entry_answer(await handlers.get(user, name))

    @router.put("/v1/notifications/{name}", tags=["notifications"])
    async def put_notification(
        user: CurrentUser, name: str, document: Annotated[Any, Body()], if_match: IfMatch
    ) -> Response:
        """Make or change a notification."""
        written = await handlers.put(user, name, document, if_match)
        return entry_answer(written.entry, status=201 if written.created else 200)

    @router.delete("/v1/notifications/{name}", status_code=204, tags=["notifications"])
    async def delete_notification(user: CurrentUser, name: str, if_match: IfMatch) -> Response:
        """Delete a notification, with what it has not delivered."""
        await handlers.delete(user, name, if_match)
        return Response(status_code=204)

    return router
