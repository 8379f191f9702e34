from __future__ import annotations

import pytest
import structlog
from fastapi import FastAPI
from starlette.responses import StreamingResponse

from shared.http.app import create_app
from shared.http.middleware import sane_request_id
from shared.http.routing import api_router
from shared.telemetry import current_traceparent
from tests.support.http import KnownTokens, calling


@pytest.fixture
def app() -> FastAPI:
    router = api_router(public=True)

    @router.get("/v1/context")
    async def context() -> dict[str, str | None]:
        bound = structlog.contextvars.get_contextvars()
        return {"traceparent": current_traceparent(), **{key: str(value) for key, value in bound.items()}}

    @router.get("/v1/broken")
    async def broken() -> StreamingResponse:
        async def pieces() -> object:
            yield b"some"
            raise RuntimeError("in the middle")

        return StreamingResponse(pieces())  # type: ignore[arg-type]

    return create_app(service="things", title="Things", routers=[router], auth=KnownTokens())


async def test_a_sane_request_id_is_kept_and_goes_back_and_into_the_log(app: FastAPI) -> None:
    async with calling(app) as client:
        response = await client.get("/v1/context", headers={"X-Request-Id": "gateway:1.2_3-x"})
    assert response.headers["X-Request-Id"] == response.json()["request_id"] == "gateway:1.2_3-x"
    assert response.json()["service"] == "things"


@pytest.mark.parametrize("text", [None, "", "a b", "x" * 65, "a\nb", "<b>", "é"])
def test_an_id_that_must_not_stand_in_logs_is_not_kept(text: str | None) -> None:
    assert sane_request_id(text) is None


async def test_requests_without_an_id_get_different_ones(app: FastAPI) -> None:
    async with calling(app) as client:
        ids = {(await client.get("/healthz")).headers["X-Request-Id"] for _ in range(3)}
    assert len(ids) == 3


async def test_the_callers_trace_is_continued(app: FastAPI) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    async with calling(app) as client:
        response = await client.get("/v1/context", headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
        fresh = await client.get("/v1/context", headers={"traceparent": "nonsense"})
    assert trace in response.json()["traceparent"]
    assert fresh.json()["traceparent"] is not None


async def test_an_unexpected_error_is_logged_once_with_the_request_id(app: FastAPI) -> None:
    router = api_router(public=True)

    @router.get("/v1/boom")
    async def boom() -> None:
        raise RuntimeError("boom")

    broken = create_app(service="things", title="Things", routers=[router])
    async with calling(broken) as client:
        with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as logs:
            response = await client.get("/v1/boom")
    assert [entry["event"] for entry in logs] == ["request_failed"]
    assert logs[0]["request_id"] == response.json()["request_id"]


async def test_an_error_after_the_response_began_breaks_it_off(app: FastAPI) -> None:
    with structlog.testing.capture_logs() as logs:
        async with calling(app) as client:
            response = await client.get("/v1/broken")
    assert response.status_code == 200
    assert [entry["event"] for entry in logs] == ["request_failed"]
