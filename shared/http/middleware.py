"""The outermost layers of every application: a request id, a trace, and an answer where nobody else had one.

Both are plain ASGI, because streams pass through them. The id of a client or gateway is kept where it is sane, so that
one id can be followed through the logs of several services; it goes back as `X-Request-Id` and into every log line.
Every answer tells browsers not to guess what it is: some are made of what users' programs wrote.
"""

from __future__ import annotations

import re
import uuid
from typing import Final

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.http import problems
from shared.telemetry import Tracing

REQUEST_ID_HEADER: Final = "X-Request-Id"
_SANE_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}", re.ASCII)


class RequestIdMiddleware:
    """Accepts or makes the request id, binds it to the log, continues the caller's trace."""

    def __init__(self, app: ASGIApp, service: str, tracing: Tracing) -> None:
        self._app = app
        self._service = service
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = sane_request_id(headers.get(REQUEST_ID_HEADER)) or uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id

        async def stamping_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered = MutableHeaders(scope=message)
                answered[REQUEST_ID_HEADER] = request_id
                answered["X-Content-Type-Options"] = "nosniff"
            await send(message)

        with (
            structlog.contextvars.bound_contextvars(service=self._service, request_id=request_id),
            self._tracing.continued(headers.get("traceparent"), f"HTTP {scope['method']}"),
        ):
            await self._app(scope, receive, stamping_send)


class LastResortMiddleware:
    """Answers 500 for an error that nobody expected, logs it once, and lets a response that began break off."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = False

        async def noting_send(message: Message) -> None:
            nonlocal began
            began = began or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, noting_send)
        except Exception:
            structlog.get_logger().exception("request_failed", method=scope["method"], path=scope["path"])
            if began:
                raise
            await _internal_error(scope)(scope, receive, send)


def sane_request_id(text: str | None) -> str | None:
    """The id that came with a request where it may go into logs and headers, else None."""
    return text if text is not None and _SANE_ID.fullmatch(text) else None


def _internal_error(scope: Scope) -> JSONResponse:
    document = problems.document_of(problems.internal_problem(), problems.request_id_of(scope))
    return JSONResponse(document, document["status"], media_type=problems.MEDIA_TYPE)
