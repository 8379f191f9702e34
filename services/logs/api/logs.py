"""`/v1/logs`: which logs a job has, a part of one, and all of them as they grow.

Text comes cleaned (see `services.logs.domain.cleaning`) unless it is asked for raw. Offsets are always those of the raw
bytes. A log is never shown as HTML: its type is plain text or bytes, and browsers are told not to guess.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Path, Query
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.responses import Response, StreamingResponse

from services.logs.domain.cursor import CURSOR_MAX_CHARS
from services.logs.domain.following import Selection
from services.logs.handlers import LogHandlers, Part, Wanted
from services.logs.tail import TAIL_MAX_BYTES
from shared.http.routing import CurrentUser, api_router
from shared.http.sse import EventStream
from shared.units import format_bytes

TAIL_MAX_LINES = 100_000

Attempt = Annotated[int, Path(ge=1, le=1_000_000)]
Index = Annotated[int, Path(ge=0, le=1_000_000)]
LastEventId = Annotated[str | None, Header(alias="Last-Event-ID", max_length=CURSOR_MAX_CHARS)]


class ReplicaLog(BaseModel):
    """One log of a job."""

    attempt: int
    role: str
    index: int
    size: int = Field(description="bytes so far")
    ended: bool = Field(description="whether nothing more comes")


class JobLogs(BaseModel):
    """All logs of a job."""

    replicas: list[ReplicaLog]


class PartQuery(BaseModel):
    """Which part of a log."""

    model_config = ConfigDict(extra="forbid")

    offset: int | None = Field(None, ge=0, description="first byte; default: the beginning")
    limit: int | None = Field(None, ge=1, description="bytes at most; default: all there is")
    tail: int | None = Field(
        None, ge=0, le=TAIL_MAX_LINES, description=f"the last lines, at most {format_bytes(TAIL_MAX_BYTES)} of them"
    )
    raw: bool = Field(default=False, description="the very bytes that were written")

    @model_validator(mode="after")
    def _one_beginning(self) -> PartQuery:
        if self.offset is not None and self.tail is not None:
            raise ValueError("give an offset or a tail, not both")
        return self


class FollowQuery(BaseModel):
    """Which logs to follow, and how much of what is there."""

    model_config = ConfigDict(extra="forbid")

    attempt: int | None = Field(None, ge=1, description="default: the last attempt, and those that come after it")
    role: str | None = Field(None, max_length=63)
    index: int | None = Field(None, ge=0)
    tail: int | None = Field(None, ge=0, le=TAIL_MAX_LINES, description="begin with the last lines; default: with all")


def logs_router(handlers: LogHandlers) -> APIRouter:
    """The routes about logs."""
    router = api_router()

    @router.get("/v1/logs/{job}", tags=["logs"])
    async def list_logs(user: CurrentUser, job: str) -> JobLogs:
        """Which replicas of which attempts have a log."""
        logs = await handlers.logs(user, job)
        return JobLogs(
            replicas=[
                ReplicaLog(
                    attempt=log.replica.attempt,
                    role=log.replica.role,
                    index=log.replica.index,
                    size=log.size,
                    ended=log.position.ended,
                )
                for log in logs
            ]
        )

    @router.get("/v1/logs/{job}/follow", tags=["logs"], response_class=EventStream)
    async def follow_logs(
        user: CurrentUser,
        job: str,
        query: Annotated[FollowQuery, Query()],
        last_event_id: LastEventId = None,
    ) -> Response:
        """Text of a job's logs as it is written: events `chunk`, and `end` when nothing more can come."""
        selection = Selection(query.attempt, query.role, query.index)
        return EventStream(await handlers.follow(user, job, selection, query.tail, last_event_id))

    @router.get("/v1/logs/{job}/{attempt}/{role}/{index}", tags=["logs"], response_class=Response)
    async def read_log(
        user: CurrentUser, job: str, attempt: Attempt, role: str, index: Index, query: Annotated[PartQuery, Query()]
    ) -> Response:
        """A part of one log; `Tm-Next-Offset` is where the next part begins."""
        wanted = Wanted(query.offset, query.limit, query.tail, query.raw)
        return _answer(await handlers.part(user, job, attempt, role, index, wanted), raw=query.raw)

    return router


def _answer(part: Part, *, raw: bool) -> Response:
    headers = {
        "Tm-Offset": str(part.start),
        "Tm-Next-Offset": str(part.stop),
        "Tm-Size": str(part.size),
        "Tm-Ended": str(part.ended).lower(),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    media_type = "application/octet-stream" if raw else "text/plain; charset=utf-8"
    return StreamingResponse(part.content, media_type=media_type, headers=headers)
