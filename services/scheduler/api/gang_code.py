"""`/v1/gang-code`: the code of a gang, for its own pods, which show a ticket in place of an account."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header
from starlette.responses import FileResponse

from services.scheduler.sources.gang_code import GangCode
from shared.http.routing import api_router

Ticket = Annotated[str, Header(alias="Tm-Code-Ticket", max_length=4096)]


def gang_code_router(code: GangCode) -> APIRouter:
    """The route that pods use."""
    router = api_router(public=True)

    @router.get("/v1/gang-code/{gang}", tags=["internal"])
    async def gang_code(gang: str, ticket: Ticket = "") -> FileResponse:
        """The gang's code as a gzipped tar file."""
        return FileResponse(await code.archive(gang, ticket), media_type="application/gzip")

    return router
