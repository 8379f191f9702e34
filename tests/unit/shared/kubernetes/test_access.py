"""JSON over HTTP to something that answers as an API server does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from shared.errors import UnavailableError
from shared.kubernetes.access import BRIEF, ApiError, KubernetesApi, connect

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """One route, which a test gives, behind a kubeconfig with two contexts."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.handler: Handler

    async def answer(self, request: web.Request) -> web.StreamResponse:
        return await self.handler(request)

    def write_config(self, port: int) -> None:
        clusters = [("main", port), ("gone", 1)]
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "main",
            "clusters": [{"name": n, "cluster": {"server": f"http://127.0.0.1:{p}"}} for n, p in clusters],
            "users": [{"name": "me", "user": {"token": "t0ken"}}],
            "contexts": [{"name": n, "context": {"cluster": n, "user": "me"}} for n, _ in clusters],
        }
        self.kubeconfig.write_text(json.dumps(document))


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    server = Server(tmp_path / "kubeconfig")
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.write_config(runner.addresses[0][1])
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    yield server
    await runner.cleanup()


@pytest.fixture
async def api(server: Server) -> AsyncIterator[KubernetesApi]:
    async with await connect() as api:
        yield api


async def test_a_token_that_the_server_knows_no_more_is_followed_by_the_one_in_the_kubeconfig(
    server: Server, api: KubernetesApi
):
    asked: list[str] = []

    async def guarded(request: web.Request) -> web.Response:
        asked.append(request.headers["Authorization"])
        status = 200 if asked[-1] == "Bearer t0ken2" else 401
        return web.Response(text="{}\n", status=status, content_type="application/json")

    server.handler = guarded
    with pytest.raises(ApiError, match="401"):
        await api.request("GET", "/a")
    server.kubeconfig.write_text(server.kubeconfig.read_text().replace("t0ken", "t0ken2"))
    with pytest.raises(ApiError, match="401"):
        await api.request("GET", "/a")
    assert asked == ["Bearer t0ken"] * 2
    api._sign_in_after = 0.0
    assert await asyncio.gather(*(api.request("GET", "/a") for _ in range(5))) == [{}] * 5
    stream = await api.lines("/a", query={}, silence_s=5)
    assert [line async for line in stream] == [{}]
    assert set(asked[7:]) == {"Bearer t0ken2"}


@pytest.mark.parametrize("text", ["", "- 1", "hello", "a: [b", "\0\1", "{contexts: [], users: 5}"])
async def test_a_file_that_is_no_kubeconfig_is_told_as_such(tmp_path: Path, text: str):
    (tmp_path / "wrong").write_text(text)
    with pytest.raises(UnavailableError, match="no access to Kubernetes"):
        await connect(kubeconfig=str(tmp_path / "wrong"))


async def test_an_address_that_is_none_is_told_as_such(server: Server):
    server.write_config(99_999)
    with pytest.raises(UnavailableError, match="Port out of range"):
        await connect()


async def test_a_token_that_can_be_no_header_is_told_as_such(server: Server):
    server.kubeconfig.write_text(server.kubeconfig.read_text().replace("t0ken", "t0\\nken"))
    async with await connect() as api:
        with pytest.raises(UnavailableError, match="header"):
            await api.request("GET", "/a")


async def test_a_request_carries_token_query_and_body(server: Server, api: KubernetesApi):
    async def echo(request: web.Request) -> web.Response:
        told = {"token": request.headers["Authorization"], "query": dict(request.query), "method": request.method}
        return web.json_response({**told, "body": await request.json(), "type": request.content_type})

    server.handler = echo
    assert await api.request("PATCH", "/api/v1/pods/a", query={"limit": 5}, body={"a": 1}) == {
        "token": "Bearer t0ken",
        "query": {"limit": "5"},
        "method": "PATCH",
        "body": {"a": 1},
        "type": "application/merge-patch+json",
    }


async def test_a_refusal_says_what_the_server_says(server: Server, api: KubernetesApi):
    async def refuse(_request: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "reason": "Forbidden", "message": "no quota left"}, status=403)

    server.handler = refuse
    with pytest.raises(ApiError) as refused:
        await api.request("GET", "/api/v1/pods")
    assert (refused.value.status, refused.value.reason, refused.value.said) == (403, "Forbidden", "no quota left")
    with pytest.raises(ApiError):
        await api.lines("/api/v1/pods", query={}, silence_s=5)


async def test_an_answer_that_is_no_json_is_no_answer(server: Server, api: KubernetesApi):
    async def proxy_page(_request: web.Request) -> web.Response:
        return web.Response(text="<html>", status=200)

    async def proxy_error(_request: web.Request) -> web.Response:
        return web.Response(text="bad gateway", status=502)

    async def spoilt(_request: web.Request) -> web.Response:
        return web.Response(text='{"a":', content_type="application/json")

    server.handler = proxy_page
    with pytest.raises(UnavailableError, match="no JSON"):
        await api.request("GET", "/api")
    with pytest.raises(UnavailableError, match="no JSON"):
        await api.exchange("POST", "/api/v1/pods", body={"a": 1})
    server.handler = spoilt
    with pytest.raises(UnavailableError, match="no JSON"):
        await api.request("GET", "/api")
    server.handler = proxy_error
    with pytest.raises(ApiError, match="502 : bad gateway"):
        await api.request("GET", "/api")


async def test_an_answer_that_nobody_reads_is_given_as_it_came(server: Server, api: KubernetesApi):
    async def odd(request: web.Request) -> web.Response:
        return web.Response(text=f"[ {request.headers['Accept'] == BRIEF} ]", content_type="application/json")

    server.handler = odd
    assert await api.exchange("POST", "/api/v1/pods", body={"a": 1}, accept=BRIEF) == b"[ True ]"


@pytest.mark.parametrize("said", ["kubeconfig", "environment"])
async def test_requests_go_by_the_proxy_that_is_named(server: Server, monkeypatch: pytest.MonkeyPatch, said: str):
    async def tell(request: web.Request) -> web.Response:
        return web.json_response({"asked": request.raw_path})

    server.handler = tell
    text = server.kubeconfig.read_text()
    proxy = json.loads(text)["clusters"][0]["cluster"]["server"]
    away = text.replace(
        f'"server": "{proxy}"',
        '"server": "http://10.255.255.1:80"' + f', "proxy-url": "{proxy}"' * (said == "kubeconfig"),
    )
    server.kubeconfig.write_text(away)
    if said == "environment":
        monkeypatch.setenv("http_proxy", proxy)
    async with await connect() as api:
        assert await api.request("GET", "/api") == {"asked": "http://10.255.255.1/api"}


async def test_a_proxy_is_left_out_for_servers_that_are_named_without(server: Server, monkeypatch: pytest.MonkeyPatch):
    async def tell(_request: web.Request) -> web.Response:
        return web.json_response({})

    server.handler = tell
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    async with await connect() as api:
        assert await api.request("GET", "/api") == {}


async def test_a_context_that_nobody_answers_for_is_unavailable(server: Server):
    async with await connect("gone") as api:
        with pytest.raises(UnavailableError, match="does not answer"):
            await api.request("GET", "/api")


async def test_a_context_that_there_is_not_is_named(server: Server):
    with pytest.raises(UnavailableError, match="context 'east'"):
        await connect("east")


async def _pieces(request: web.Request, *pieces: bytes) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
        await asyncio.sleep(0.01)
    return response


async def test_lines_come_whole_however_they_are_cut(server: Server, api: KubernetesApi):
    long = json.dumps({"n": 2, "text": "x" * 300_000}).encode()

    async def stream(request: web.Request) -> web.StreamResponse:
        return await _pieces(request, b'{"n"', b": 1}\n" + long[:200_000], long[200_000:] + b'\n{"n": 3}\n{"n":')

    server.handler = stream
    async with aclosing(await api.lines("/watch", query={}, silence_s=5)) as lines:
        assert [line["n"] async for line in lines] == [1, 2, 3]


def _stalling(begin: bytes) -> Handler:
    """Sends these bytes, and then nothing for long."""

    async def stall(request: web.Request) -> web.StreamResponse:
        response = await _pieces(request, begin)
        await asyncio.sleep(30)
        return response

    return stall


async def test_a_stream_in_which_nothing_moves_is_taken_for_dead(server: Server, api: KubernetesApi):
    server.handler = _stalling(b'{"n": 1}\n')
    found: list[Any] = []
    async with aclosing(await api.lines("/watch", query={}, silence_s=0.05)) as lines:
        with pytest.raises(UnavailableError):
            found.extend([line async for line in lines])


async def test_a_stream_that_is_cut_ends_as_if_the_server_had_ended_it(server: Server, api: KubernetesApi):
    server.handler = _stalling(b'{"n": 1}\n{"n": 2}\n')
    async with aclosing(await api.lines("/watch", query={}, silence_s=30)) as lines:
        found = []
        async for line in lines:
            found.append(line["n"])
            lines.cut()
        assert found == [1]
        assert lines.is_cut


async def test_a_stream_that_is_cut_while_it_is_waited_for_ends_at_once(server: Server, api: KubernetesApi):
    server.handler = _stalling(b'{"n": 1}\n')
    async with aclosing(await api.lines("/watch", query={}, silence_s=30)) as lines:
        asyncio.get_running_loop().call_later(0.05, lines.cut)
        assert [line["n"] async for line in lines] == [1]


async def test_the_context_of_the_pod_itself_is_its_service_account(server: Server):
    with pytest.raises(UnavailableError, match="context 'in-cluster': Service host/port is not set"):
        await connect("in-cluster")
