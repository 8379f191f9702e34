from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Body, FastAPI
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request

from shared.http.app import create_app
from shared.http.routing import CurrentUser, api_router
from tests.support.http import KnownTokens, calling

JSON = {"Content-Type": "application/json"}


class Thing(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str


def routers() -> list[APIRouter]:
    private, small, public = api_router(), api_router(max_body_bytes=100), api_router(public=True)

    @private.post("/v1/things", status_code=201)
    async def make(thing: Thing, user: CurrentUser) -> dict[str, str]:
        return {"name": thing.name, "by": user.name}

    @private.get("/v1/things/secret")
    async def secret() -> dict[str, str]:
        return {"secret": "yes"}

    @private.post("/v1/things/any")
    async def anything(body: Annotated[Any, Body()]) -> Any:
        return body

    @private.post("/v1/things/stop")
    async def stop(body: Annotated[Thing | None, Body()] = None) -> bool:
        return body is None

    @small.post("/v1/small")
    async def upload(request: Request) -> int:
        return sum([len(chunk) async for chunk in request.stream()])

    @public.get("/v1/open")
    async def open_to_all() -> dict[str, str]:
        return {"open": "yes"}

    return [private, small, public]


@pytest.fixture
def app() -> FastAPI:
    return create_app(service="things", title="Things", routers=routers(), auth=KnownTokens())


async def test_a_handler_learns_who_asks(app: FastAPI) -> None:
    async with calling(app) as client:
        response = await client.post("/v1/things", json={"name": "a"})
    assert (response.status_code, response.json()) == (201, {"name": "a", "by": "ada"})


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic YTpi", "ada", "Bearer wrong", "Token ada"])
async def test_every_route_that_is_not_public_asks_for_a_valid_token(app: FastAPI, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    async with calling(app, user=None) as client:
        response = await client.get("/v1/things/secret", headers=headers)
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert response.json()["code"] == "unauthenticated"


async def test_a_public_route_asks_for_none(app: FastAPI) -> None:
    async with calling(app, user=None) as client:
        assert (await client.get("/v1/open")).json() == {"open": "yes"}


async def test_nothing_of_a_body_is_read_for_somebody_unknown(app: FastAPI) -> None:
    read = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal read
        read += 1
        yield b"{}"

    async with calling(app, user=None) as client:
        response = await client.post("/v1/things", content=body(), headers=JSON)
    assert response.status_code == 401
    assert read == 0


async def test_an_announced_body_over_the_limit_is_refused_unread(app: FastAPI) -> None:
    async with calling(app) as client:
        response = await client.post("/v1/small", content=b"x" * 101)
    assert response.status_code == 413
    assert response.json()["detail"] == "the body passes 100B, the most that is taken here"


async def test_an_unannounced_body_is_cut_off_at_the_limit(app: FastAPI) -> None:
    sent = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1000):
            sent += 60
            yield b"x" * 60

    async with calling(app) as client:
        response = await client.post("/v1/small", content=body())
    assert response.status_code == 413
    assert sent <= 180


async def test_a_body_at_the_limit_is_taken(app: FastAPI) -> None:
    async with calling(app) as client:
        assert (await client.post("/v1/small", content=b"x" * 100)).json() == 100


async def test_a_json_body_over_one_mebibyte_is_refused(app: FastAPI) -> None:
    async with calling(app) as client:
        response = await client.post("/v1/things", json={"name": "x" * (1 << 20)})
    assert response.status_code == 413
    assert response.json()["code"] == "too-large"


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-yaml", "multipart/form-data; boundary=x", ""])
async def test_a_json_route_takes_json_only(app: FastAPI, content_type: str) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    async with calling(app) as client:
        response = await client.post("/v1/things/any", content=b'{"name": "a"}', headers=headers)
    assert response.status_code == 415
    assert "send it as application/json" in response.json()["detail"]


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON", "application/x+json"])
async def test_every_spelling_of_json_is_taken(app: FastAPI, content_type: str) -> None:
    async with calling(app) as client:
        response = await client.post("/v1/things/any", content=b"[1]", headers={"Content-Type": content_type})
    assert response.json() == [1]


async def test_malformed_json_is_400_with_the_place(app: FastAPI) -> None:
    async with calling(app) as client:
        response = await client.post("/v1/things", content=b'{"name": "a", "name": "b"}', headers=JSON)
    assert response.status_code == 400
    assert response.json()["code"] == "malformed"
    assert "'name' stands twice" in response.json()["detail"]


async def test_a_body_that_may_be_left_out_needs_no_content_type(app: FastAPI) -> None:
    async with calling(app) as client:
        assert (await client.post("/v1/things/stop")).json() is True


async def test_a_foreign_kind_of_route_is_refused_when_the_application_is_made() -> None:
    bare = APIRouter()
    bare.add_api_route("/v1/bare", lambda: None)
    with pytest.raises(TypeError, match="api_router"):
        create_app(service="x", title="X", routers=[bare], auth=KnownTokens())


async def test_a_route_outside_the_api_root_is_refused() -> None:
    router = api_router()
    router.add_api_route("/things", lambda: None)
    with pytest.raises(ValueError, match="does not stand under /v1/"):
        create_app(service="x", title="X", routers=[router], auth=KnownTokens())


async def test_private_routes_without_an_authenticator_are_refused() -> None:
    router = api_router()
    router.add_api_route("/v1/things", lambda: None)
    with pytest.raises(ValueError, match="needs a token"):
        create_app(service="x", title="X", routers=[router])
