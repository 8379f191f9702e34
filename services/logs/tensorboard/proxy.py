"""Passes a request on to a board and its answer back, byte for byte and without holding either.

What says who asks (cookies, tokens) stays here, and so does what is about the connection alone. TensorBoard answers
with paths below its prefix, which is the one that it has in the API, so nothing in an answer needs to be rewritten; it
uses no websockets.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urlsplit

import httpx
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from shared.errors import UnavailableError

_OF_THE_CONNECTION: Final = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "te", "trailer", "transfer-encoding", "upgrade", "host"}
)
_KEPT_HERE: Final = frozenset({"authorization", "cookie", "content-length", "proxy-authorization", "expect"})
_NOT_PASSED_BACK: Final = frozenset({"set-cookie", "server", "date", "access-control-allow-origin"})


async def forward(client: httpx.AsyncClient, request: Request) -> Response:
    """The board's answer; raises UnavailableError where it has gone."""
    raw_path = request.scope.get("raw_path") or request.scope["path"].encode()
    query = request.scope.get("query_string", b"")
    url = httpx.URL("http://tensorboard").copy_with(raw_path=raw_path + (b"?" + query if query else b""))
    headers = [(name, value) for name, value in request.headers.items() if _goes_on(name)]
    # Made without the client, which would add headers of its own: an encoding that the browser did not ask for, say.
    passed_on = httpx.Request(
        request.method,
        url,
        headers=[*headers, ("host", request.headers.get("host", "tensorboard"))],
        content=await request.body() or None,
    )
    try:
        answer = await client.send(passed_on, stream=True)
    except httpx.TransportError as error:
        raise UnavailableError(f"TensorBoard does not answer: {error or type(error).__name__}; try again") from error
    back = StreamingResponse(_body(answer), answer.status_code)
    back.raw_headers.extend(_headers_back(answer))
    return back


def _goes_on(name: str) -> bool:
    return name not in _OF_THE_CONNECTION and name not in _KEPT_HERE


def _headers_back(answer: httpx.Response) -> list[tuple[bytes, bytes]]:
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in answer.headers.multi_items()
        if name.lower() not in _OF_THE_CONNECTION | _NOT_PASSED_BACK | {"location"}
    ]
    if "location" in answer.headers:
        headers.append((b"location", _here(answer.headers["location"]).encode("latin-1")))
    return headers


def _here(location: str) -> str:
    """A redirection within this origin, whatever host TensorBoard thinks it is at."""
    parts = urlsplit(location)
    path = "/" + parts.path.lstrip("/")
    return f"{path}?{parts.query}" if parts.query else path


async def _body(answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for piece in answer.aiter_raw():
            yield piece
    except httpx.TransportError:
        return
    finally:
        await answer.aclose()
