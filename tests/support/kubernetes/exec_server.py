"""`pods/exec` as a kubelet serves it through the API server: the channel protocol, with commands that really run.

What matters to a client is kept: binary messages whose first byte is the channel, an empty first message of each
stream, the `Status` on channel 3 before the connection is closed, and that the end of a connection closes the command's
standard input and nothing else.
"""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from kubernetes.aio.client import ApiClient, Configuration
from shared.kubernetes.access import KubernetesApi

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, STATUS = range(4)


@dataclass
class ExecServer:
    """What was asked for, and what may go wrong."""

    protocols: tuple[str, ...] = PROTOCOLS
    refuse_with: int = 0
    break_after_start: bool = False
    queries: list[dict[str, list[str]]] = field(default_factory=list)
    agreed: list[str | None] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One exec."""
        if self.refuse_with:
            return web.json_response({"kind": "Status", "message": "no"}, status=self.refuse_with)
        query = {key: request.query.getall(key) for key in request.query}
        self.queries.append(query)
        socket = web.WebSocketResponse(protocols=self.protocols)
        await socket.prepare(request)
        self.agreed.append(socket.ws_protocol)
        await self._run(socket, query["command"])
        return socket

    async def _run(self, socket: web.WebSocketResponse, command: list[str]) -> None:
        try:
            process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        except FileNotFoundError:
            await _tell(socket, STATUS, json.dumps(_not_started(command[0])).encode())
            await socket.close()
            return
        self.processes.append(process)
        if self.break_after_start:
            assert socket._req is not None
            socket._req.transport.abort()
        reading = asyncio.create_task(_feed(socket, process))
        await asyncio.gather(_pass(socket, STDOUT, process.stdout), _pass(socket, STDERR, process.stderr))
        await _tell(socket, STATUS, json.dumps(_status(await process.wait())).encode())
        await socket.close()
        await reading


async def _feed(socket: web.WebSocketResponse, process: Process) -> None:
    """Standard input, which is closed when the connection ends; the command is left alone then."""
    async for message in socket:
        if message.type is WSMsgType.BINARY and message.data[:1] == bytes((STDIN,)):
            with suppress(ConnectionError):
                process.stdin.write(message.data[1:])
                await process.stdin.drain()
    process.stdin.close()


async def _pass(socket: web.WebSocketResponse, channel: int, stream: asyncio.StreamReader) -> None:
    await _tell(socket, channel, b"")
    while data := await stream.read(32 * 1024):
        await _tell(socket, channel, data)


async def _tell(socket: web.WebSocketResponse, channel: int, data: bytes) -> None:
    with suppress(ConnectionError):
        await socket.send_bytes(bytes((channel,)) + data)


def _status(code: int) -> dict[str, Any]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    shown = code if code >= 0 else 128 - code
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {shown}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(shown)}]},
    }


def _not_started(program: str) -> dict[str, Any]:
    message = f'Internal error occurred: failed to exec in container: exec: "{program}": no such file or directory'
    return {"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500}


@asynccontextmanager
async def serving(server: ExecServer) -> AsyncIterator[KubernetesApi]:
    """Access to the server."""
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/{namespace}/pods/{pod}/exec", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    async with KubernetesApi(ApiClient(Configuration(host=f"http://{host}:{port}"))) as api:
        yield api
    await runner.cleanup()
