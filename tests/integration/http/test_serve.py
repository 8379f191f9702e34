"""The HTTP server on a real socket."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from pydantic import BaseModel

from shared.errors import UnavailableError
from shared.http.app import create_app
from shared.http.routing import api_router
from shared.http.serve import HttpServer
from shared.http.sse import EventStream, ServerSentEvent
from tests.support.http import KnownTokens


class Spec(BaseModel):
    text: str


def app() -> object:
    router = api_router()

    @router.post("/v1/specs")
    async def take(spec: Spec) -> int:
        return len(spec.text)

    @router.get("/v1/follow")
    async def follow() -> EventStream:
        async def events() -> AsyncIterator[ServerSentEvent]:
            yield ServerSentEvent("first")
            await asyncio.Event().wait()

        return EventStream(events())

    return create_app(service="things", title="Things", routers=[router], auth=KnownTokens())


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[HttpServer, httpx.AsyncClient]]:
    server = HttpServer("127.0.0.1", 0)
    server.mount(app())  # type: ignore[arg-type]
    task = asyncio.create_task(server.run())
    headers = {"Authorization": "Bearer ada"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", headers=headers) as client:
        yield server, client
        await server.stop()
        await asyncio.wait_for(task, 45)


async def test_a_body_of_ten_megabytes_gets_its_problem_and_the_server_goes_on() -> None:
    async with serving() as (_, client):
        response = await client.post("/v1/specs", json={"text": "x" * 10_000_000})
        assert (response.status_code, response.json()["code"]) == (413, "too-large")
        assert (await client.post("/v1/specs", json={"text": "xyz"})).json() == 3


async def test_a_request_that_is_no_http_does_not_stop_the_server() -> None:
    async with serving() as (server, client):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"\x00\xff nonsense\r\n\r\n")
        assert b"400" in await reader.readline()
        writer.close()
        await writer.wait_closed()
        assert (await client.get("/healthz")).status_code == 200


async def test_stopping_ends_every_follower_and_the_server_at_once() -> None:
    async with serving() as (server, client):
        followers = [client.build_request("GET", "/v1/follow") for _ in range(3)]
        responses = [await client.send(request, stream=True) for request in followers]
        streams = [response.aiter_text() for response in responses]
        for stream in streams:
            while "data: first" not in await anext(stream):
                pass
        await server.stop()
        for stream in streams:
            assert [text async for text in stream] == []


async def test_the_process_keeps_its_signal_handlers() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    async with serving() as (_, client):
        await client.get("/healthz")
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


async def test_a_taken_port_is_an_error_that_names_it() -> None:
    async with serving() as (server, _):
        with pytest.raises(UnavailableError, match=f"127.0.0.1 port {server.port}: Address already in use"):
            HttpServer("127.0.0.1", server.port)


async def test_a_server_that_is_stopped_before_it_runs_does_not_run() -> None:
    server = HttpServer("127.0.0.1", 0)
    server.mount(app())  # type: ignore[arg-type]
    await server.stop()
    await asyncio.wait_for(server.run(), 45)
