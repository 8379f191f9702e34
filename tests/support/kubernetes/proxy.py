"""A proxy before any API server: a test can cut all connections, or watches in mid-event, and hold requests back.

Clients speak HTTP to it without a certificate of their own. It speaks to the server as the kubeconfig says, so that
events pass it in the clear, of the test server and of a real cluster alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from shared.tasks import end
from tests.support.kubernetes.clusters import Cluster
from tests.support.kubernetes.connection import Connection

HOST = "127.0.0.1"
PIECE_BYTES = 1 << 16
GONE_S = 10
EVENT = b'{"type":"'
PODS = b"/pods"
"""How the line of a request ends that makes a pod."""


@dataclass(eq=False)
class Link:
    """One connection through the proxy, and whether its last request was for a watch that is to be cut."""

    client: asyncio.StreamWriter
    watches: bool = False
    is_to_be_cut: bool = False

    def break_off(self) -> None:
        self.client.transport.abort()


class Proxy:
    """Passes connections on, to where a connection of the test leads."""

    def __init__(self, api: Connection) -> None:
        self._address = urlsplit(api.url)
        self._tls: ssl.SSLContext | None = api.tls
        self._server: asyncio.Server | None = None
        self._links: set[Link] = set()
        self._held_kind = b""
        self._passing = 0
        self._given_up = asyncio.Event()
        self.port = 0
        self.cut = 0
        """How many watches were cut in the middle of an event."""

    async def start(self) -> None:
        """Listen; after `stop` again on the same port."""
        self._server = await asyncio.start_server(self._serve, HOST, self.port)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Break every connection and refuse new ones."""
        if self._server is not None:
            self._server.close()
        self._held_kind = b""
        self._given_up.set()
        for link in tuple(self._links):
            link.break_off()
        async with asyncio.timeout(GONE_S):
            while self._links:
                await asyncio.sleep(0.01)
        self._given_up.clear()

    def hold(self, request: bytes, after: int) -> None:
        """Pass so many requests on whose line ends like this, and hold back all others like it until `stop`."""
        self._held_kind, self._passing = request, after

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """Nobody listens inside."""
        await self.stop()
        try:
            yield
        finally:
            await self.start()

    def cut_watches(self) -> None:
        """Cut every open watch in the middle of its next event."""
        for link in self._links:
            link.is_to_be_cut = link.watches

    def write_kubeconfig(self, file: Path) -> Path:
        clusters = [{"name": "proxy", "cluster": {"server": f"http://{HOST}:{self.port}"}}]
        contexts = [{"name": "proxy", "context": {"cluster": "proxy", "user": "me"}}]
        users = [{"name": "me", "user": {"token": "none"}}]
        kinds = {"apiVersion": "v1", "kind": "Config", "current-context": "proxy"}
        file.write_text(yaml.safe_dump({**kinds, "clusters": clusters, "contexts": contexts, "users": users}))
        return file

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(writer)
        self._links.add(link)
        with contextlib.suppress(OSError, ssl.SSLError):
            from_server, to_server = await asyncio.open_connection(
                self._address.hostname, self._address.port, ssl=self._tls
            )
            up = asyncio.create_task(self._ask(link, reader, to_server))
            down = asyncio.create_task(self._answer(link, from_server))
            try:
                await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await end(up, down)
                to_server.transport.abort()
        self._links.discard(link)
        link.break_off()

    async def _ask(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(PIECE_BYTES):
            line, is_request, _ = piece.partition(b" HTTP/1.1\r\n")
            if is_request:
                link.watches = b"watch=true" in line
                if await self._is_held_back(line):
                    return
            writer.write(piece)
            await writer.drain()

    async def _is_held_back(self, line: bytes) -> bool:
        """Tells at once of what may pass, and of all else when it is too late for it."""
        if not self._held_kind or not line.endswith(self._held_kind):
            return False
        self._passing -= 1
        if self._passing >= 0:
            return False
        await self._given_up.wait()
        return True

    async def _answer(self, link: Link, reader: asyncio.StreamReader) -> None:
        while piece := await reader.read(PIECE_BYTES):
            if link.is_to_be_cut and EVENT in piece:
                self.cut += 1
                link.client.write(piece[: (piece.rindex(EVENT) + len(piece)) // 2])
                await link.client.drain()
                return
            link.client.write(piece)
            await link.client.drain()


@asynccontextmanager
async def proxied(cluster: Cluster, directory: Path) -> AsyncIterator[tuple[Cluster, Proxy]]:
    """The cluster as those see it who go through the proxy; the test's own requests do not."""
    proxy = Proxy(cluster.api)
    await proxy.start()
    try:
        yield replace(cluster, kubeconfig=proxy.write_kubeconfig(directory / "proxied")), proxy
    finally:
        await proxy.stop()
