from __future__ import annotations

import pytest
from fastapi import FastAPI

from shared.errors import UnavailableError
from shared.http.app import create_app
from shared.http.origin import Origin
from shared.http.routing import api_router
from tests.support.http import KnownTokens, calling


async def fine() -> str:
    return "fine"


async def broken() -> str:
    raise UnavailableError("away")


def service(name: str, *paths: str, check: object = fine) -> FastAPI:
    router = api_router(public=True)
    for path in paths:

        async def answer() -> str:
            return name

        router.add_api_route(path, answer)
    return create_app(
        service=name,
        title=name,
        routers=[router],
        auth=KnownTokens(),
        checks={"jetstream": check},  # type: ignore[dict-item]
    )


async def test_each_request_goes_to_the_service_that_owns_its_prefix() -> None:
    origin = Origin([service("submitter", "/v1/jobs", "/v1/jobs/{job}", "/v1/auth/me"), service("logs", "/v1/logs/x")])
    async with calling(origin) as client:
        for path, owner in (("/v1/jobs", "submitter"), ("/v1/jobs/a", "submitter"), ("/v1/logs/x", "logs")):
            assert (await client.get(path)).json() == owner


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/", "/v1/jobsx", "/v2/jobs", "//v1/jobs", "/nowhere"])
async def test_what_nobody_owns_is_a_problem(path: str) -> None:
    async with calling(Origin([service("submitter", "/v1/jobs")])) as client:
        response = await client.get("http://test" + path)
    assert (response.status_code, response.json()["code"]) == (404, "not-found")


async def test_readiness_is_the_sum_of_all_services() -> None:
    origin = Origin([service("submitter", "/v1/jobs"), service("logs", "/v1/logs", check=broken)])
    async with calling(origin) as client:
        response = await client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["checks"] == {
        "logs.jetstream": {"ok": False, "detail": "away"},
        "submitter.jetstream": {"ok": True, "detail": "fine"},
    }


async def test_one_metrics_page_has_every_service_and_the_process() -> None:
    origin = Origin([service("submitter", "/v1/jobs"), service("logs", "/v1/logs")])
    async with calling(origin) as client:
        await client.get("/v1/jobs")
        await client.get("/v1/logs")
        page = (await client.get("/metrics")).text
    assert 'route="/v1/jobs",service="submitter"' in page
    assert 'route="/v1/logs",service="logs"' in page
    assert "process_resident_memory_bytes" in page


async def test_one_openapi_document_has_every_path() -> None:
    async with calling(Origin([service("submitter", "/v1/jobs"), service("logs", "/v1/logs")])) as client:
        document = (await client.get("/openapi.json")).json()
    assert set(document["paths"]) == {"/v1/jobs", "/v1/logs"}
    assert "Problem" in document["components"]["schemas"]


def test_two_services_with_one_prefix_are_refused() -> None:
    with pytest.raises(ValueError, match=r"logs serves \['/v1/jobs'\], which another service serves already"):
        Origin([service("submitter", "/v1/jobs"), service("logs", "/v1/jobs/{job}/logs")])
