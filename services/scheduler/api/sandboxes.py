"""`/v1/sandboxes`: what attempts left on their machines."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from services.scheduler.handlers.sandboxes import SandboxHandlers
from services.scheduler.ports import KeptSandbox
from shared.clock import rfc3339
from shared.http.paging import Page
from shared.http.routing import CurrentUser, api_router

Json = dict[str, Any]


def sandboxes_router(handlers: SandboxHandlers) -> APIRouter:
    """The routes about sandboxes."""
    router = api_router()

    @router.get("/v1/sandboxes/{job}", tags=["sandboxes"])
    async def list_sandboxes(user: CurrentUser, job: str) -> Page[Json]:
        """What is held of the job's ended attempts (`keepFor`); only admins are told where."""
        kept = handlers.kept(user, job)
        return Page(items=[_document(each, with_place=user.admin) for each in kept])

    return router


def _document(kept: KeptSandbox, *, with_place: bool) -> Json:
    place = {"machine": kept.machine, "path": kept.path} if with_place else {}
    return {"attempt": kept.attempt, "until": rfc3339(kept.until), **place}
