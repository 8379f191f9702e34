"""The HTTP server: uvicorn inside somebody else's event loop, stopped by a call instead of by signals.

The socket is bound before anything else, so that a taken port is an error with a name, and port 0 has a number. On
`stop` the event that every stream waits on is set, so that followers end and uvicorn has nothing left to wait for; what
has not ended five seconds later is cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Final

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.errors import UnavailableError
from shared.http.sse import STOPPING_KEY

GRACE_S: Final = 5
_BACKLOG: Final = 512


class HttpServer:
    """Serves one ASGI application on one socket."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = _bind(host, port)
        self._stopping = asyncio.Event()
        self._app: ASGIApp | None = None
        self._uvicorn: _QuietServer | None = None

    @property
    def port(self) -> int:
        """The port that is bound, also where 0 was asked for."""
        return int(self._socket.getsockname()[1])

    def mount(self, app: ASGIApp) -> None:
        """Say what is served; before `run`."""
        self._app = app

    async def run(self) -> None:
        """Serve until `stop`; returns when the last response has ended."""
        config = uvicorn.Config(
            self._with_stop_event,
            interface="asgi3",
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=GRACE_S,
        )
        self._uvicorn = _QuietServer(config)
        try:
            if not self._stopping.is_set():
                await self._uvicorn.serve(sockets=[self._socket])
        finally:
            self._socket.close()

    async def stop(self) -> None:
        """End streams and take no new requests."""
        self._stopping.set()
        if self._uvicorn is None:
            self._socket.close()
        else:
            self._uvicorn.should_exit = True

    async def _with_stop_event(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            raise RuntimeError("HttpServer.mount was not called")
        scope[STOPPING_KEY] = self._stopping
        await self._app(scope, receive, send)


class _QuietServer(uvicorn.Server):
    """Uvicorn that leaves the process's signals to whoever owns the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio sets NODELAY only where TCP is said
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        raise UnavailableError(f"cannot listen on {host} port {port}: {error.strerror}; choose another port") from None
    return bound
