"""`/v1/logs`: which logs a job has, a part of one, a whole one as a file, lines of all, and all of them as they grow.

Text comes cleaned (see `services.logs.domain.cleaning`) unless it is asked for raw. Offsets are always those of the raw
bytes. A log is never shown as HTML: its type is plain text or bytes, and browsers are told not to guess.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Final

from fastapi import APIRouter, Header, Query
from starlette.responses import Response, StreamingResponse

from services.logs.adapters.files import StoredLog
from services.logs.api.documents import (
    Attempt,
    DownloadQuery,
    FollowQuery,
    Index,
    JobLogs,
    LastEventId,
    LogLines,
    MergedQuery,
    PartQuery,
    ReplicaLog,
    lines_document,
    millis_of,
)
from services.logs.domain.following import Selection
from services.logs.download import ByteRange, UnsatisfiableRangeError, packed_clean, packed_raw, range_of
from services.logs.handlers import LogHandlers, LogName, Part
from shared.http.routing import CurrentUser, api_router
from shared.http.sse import EventStream

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "sandbox; default-src 'none'",
}
_TEXT: Final = "text/plain; charset=utf-8"
_BYTES: Final = "application/octet-stream"

RangeHeader = Annotated[str | None, Header(alias="Range", max_length=200)]


def logs_router(handlers: LogHandlers) -> APIRouter:
    """The routes about logs."""
    router = api_router()

    @router.get("/v1/logs/{job}", tags=["logs"])
    async def list_logs(user: CurrentUser, job: str) -> JobLogs:
        """Which replicas of which attempts have a log."""
        return JobLogs(replicas=[_listed(log) for log in await handlers.logs(user, job)])

    @router.get("/v1/logs/{job}/follow", tags=["logs"], response_class=EventStream)
    async def follow_logs(
        user: CurrentUser,
        job: str,
        query: Annotated[FollowQuery, Query()],
        last_event_id: LastEventId = None,
    ) -> Response:
        """Text of a job's logs as it is written: events `chunk`, and `end` when nothing more can come."""
        events = await handlers.follow(user, job, query.selection, query.tail, last_event_id, raw=query.raw)
        return EventStream(events)

    @router.get("/v1/logs/{job}/lines", tags=["logs"])
    async def merged_lines(user: CurrentUser, job: str, query: Annotated[MergedQuery, Query()]) -> LogLines:
        """Lines of the replicas of an attempt in the order in which they were seen, page by page."""
        page = await handlers.lines(
            user,
            job,
            Selection(query.attempt, query.role, query.index),
            limit=query.limit,
            since_ms=millis_of(query.since),
            until_ms=millis_of(query.until),
            cursor=query.cursor,
            raw=query.raw,
        )
        return lines_document(page)

    @router.get("/v1/logs/{job}/{attempt}/{role}/{index}", tags=["logs"], response_class=Response)
    async def read_log(
        user: CurrentUser, job: str, attempt: Attempt, role: str, index: Index, query: Annotated[PartQuery, Query()]
    ) -> Response:
        """A part of one log; `Tm-Next-Offset` is where the next part begins."""
        part = await handlers.part(user, LogName(job, attempt, role, index), query.wanted)
        return _answer(part, raw=query.raw)

    @router.get("/v1/logs/{job}/{attempt}/{role}/{index}/download", tags=["logs"], response_class=Response)
    async def download_log(
        user: CurrentUser,
        job: str,
        attempt: Attempt,
        role: str,
        index: Index,
        query: Annotated[DownloadQuery, Query()],
        wanted: RangeHeader = None,
    ) -> Response:
        """What one log holds so far, as a file: text, or with `raw` the bytes, which may be asked for in ranges."""
        log = await handlers.log(user, LogName(job, attempt, role, index))
        if query.zstd:
            packed = packed_raw(log, log.size) if query.raw else packed_clean(handlers, log, log.size)
            return _file(packed, f"{_name(log)}.zst", "application/zstd")
        if query.raw:
            return _range(handlers, log, wanted)
        return _file(handlers.content(log, 0, log.size, raw=False), _name(log), _TEXT)

    return router


def _listed(log: StoredLog) -> ReplicaLog:
    replica = log.replica
    return ReplicaLog(
        attempt=replica.attempt, role=replica.role, index=replica.index, size=log.size, ended=log.position.ended
    )


def _range(handlers: LogHandlers, log: StoredLog, wanted: str | None) -> Response:
    """The bytes that are asked for, or all of them."""
    size = log.size
    try:
        part = range_of(wanted, size)
    except UnsatisfiableRangeError:
        return Response(status_code=416, headers={**_HEADERS, "Content-Range": f"bytes */{size}"})
    whole = part or ByteRange(0, size)
    response = _file(handlers.content(log, whole.start, whole.stop, raw=True), _name(log), _BYTES)
    response.headers["Accept-Ranges"] = "bytes"
    response.headers["Content-Length"] = str(whole.stop - whole.start)
    if part is not None:
        response.status_code = 206
        response.headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{size}"
    return response


def _name(log: StoredLog) -> str:
    """What the file of a log is called."""
    replica = log.replica
    return f"{replica.job}-{replica.attempt}-{replica.role}-{replica.index}.log"


def _answer(part: Part, *, raw: bool) -> Response:
    headers = {
        **_HEADERS,
        "Tm-Offset": str(part.start),
        "Tm-Next-Offset": str(part.stop),
        "Tm-Size": str(part.size),
        "Tm-Ended": str(part.ended).lower(),
    }
    return StreamingResponse(part.content, media_type=_BYTES if raw else _TEXT, headers=headers)


def _file(content: AsyncIterator[bytes], name: str, media_type: str) -> Response:
    headers = {**_HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(content, media_type=media_type, headers=headers)
