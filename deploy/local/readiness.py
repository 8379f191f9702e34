"""Asking a platform over HTTP whether it is ready, without an HTTP library: one request a connection."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

_POLL_S: Final = 0.05
_COMPLAIN_S: Final = 10.0
_TIMEOUT_S: Final = 5.0


async def await_ready(host: str, port: int) -> None:
    """Return once `/readyz` answers 200; says in the log what is not ready where it takes long."""
    loop = asyncio.get_running_loop()
    complain_at = loop.time() + _COMPLAIN_S
    while True:
        status, body = await ready_status(host, port)
        if status == 200:
            return
        if loop.time() > complain_at:
            complain_at = loop.time() + _COMPLAIN_S
            structlog.get_logger().warning("platform_not_ready", status=status, answer=body[:1000])
        await asyncio.sleep(_POLL_S)


async def ready_status(host: str, port: int) -> tuple[int, str]:
    """Status and body of `/readyz`; status 0 where nobody answers."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(f"GET /readyz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            answer = await reader.read()
            writer.close()
    except (OSError, TimeoutError) as error:
        return 0, str(error)
    head, _, body = answer.decode(errors="replace").partition("\r\n\r\n")
    return int(head.split(" ", 2)[1]) if head.startswith("HTTP/") else 0, body
