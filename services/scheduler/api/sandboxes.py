"""`/v1/sandboxes`: what attempts left on their machines, and commands run beside those of running replicas."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from services.scheduler.handlers.sandboxes import ExecRequest, SandboxHandlers
from services.scheduler.ports.sandboxes import ExecEnded, ExecOutput, KeptSandbox
from shared.clock import rfc3339
from shared.documents.fields import Argument
from shared.http.paging import Page
from shared.http.routing import CurrentUser, api_router
from shared.http.sse import EventStream, ServerSentEvent

Json = dict[str, Any]
_ARGUMENTS_MAX: Final = 256


class ExecDocument(BaseModel):
    """The body of an exec."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: tuple[Argument, ...] = Field(min_length=1, max_length=_ARGUMENTS_MAX, description="program and arguments")
    role: str | None = Field(None, description="role of the replica; default: the first")
    index: int = Field(0, ge=0, description="index of the replica")
    timeout: float = Field(600, gt=0, le=86_400, description="seconds after which the command is ended")

    def request(self) -> ExecRequest:
        """What is to be done."""
        return ExecRequest(self.command, self.role, self.index, self.timeout)


def sandboxes_router(handlers: SandboxHandlers) -> APIRouter:
    """The routes about sandboxes."""
    router = api_router()

    @router.get("/v1/sandboxes/{job}", tags=["sandboxes"])
    async def list_sandboxes(user: CurrentUser, job: str) -> Page[Json]:
        """What is held of the job's ended attempts (`keepFor`); only admins are told where."""
        kept = handlers.kept(user, job)
        return Page(items=[_document(each, with_place=user.admin) for each in kept])

    @router.post("/v1/sandboxes/{job}/exec", tags=["sandboxes"])
    async def execute(user: CurrentUser, job: str, body: ExecDocument) -> Response:
        """Run a command beside a replica's own; server-sent events `stdout`, `stderr` (base64) and at last `exit`."""
        return EventStream(_events(await handlers.execute(user, job, body.request())))

    return router


async def _events(pieces: AsyncGenerator[ExecOutput | ExecEnded, None]) -> AsyncIterator[ServerSentEvent]:
    try:
        async for piece in pieces:
            if isinstance(piece, ExecOutput):
                data = {"data": base64.b64encode(piece.data).decode()}
                yield ServerSentEvent(json.dumps(data), event=piece.stream)
            else:
                yield ServerSentEvent(json.dumps({"code": piece.code, "message": piece.message}), event="exit")
    finally:
        await pieces.aclose()


def _document(kept: KeptSandbox, *, with_place: bool) -> Json:
    place = {"machine": kept.machine, "path": kept.path} if with_place else {}
    return {"attempt": kept.attempt, "until": rfc3339(kept.until), **place}
