from __future__ import annotations

from fastapi import FastAPI
from prometheus_client import CollectorRegistry, Counter

from shared.errors import UnavailableError
from shared.http.app import create_app, parts_of
from shared.http.routing import CurrentUser, api_router
from tests.support.http import KnownTokens, calling


async def fine() -> str:
    return "3 waiting"


async def broken() -> str:
    raise UnavailableError("consumer x is gone")


def app_with(**options: object) -> FastAPI:
    router = api_router()

    @router.get("/v1/jobs/{job}")
    async def job(job: str, user: CurrentUser) -> str:
        return job + user.name

    return create_app(service="submitter", title="Jobs", routers=[router], auth=KnownTokens(), **options)  # type: ignore[arg-type]


async def test_a_process_that_answers_is_alive_whatever_its_checks_say() -> None:
    async with calling(app_with(checks={"consumer": broken}), user=None) as client:
        assert (await client.get("/healthz")).json() == {"alive": True}


async def test_a_service_is_ready_when_all_checks_are_well() -> None:
    async with calling(app_with(checks={"consumer": fine}), user=None) as client:
        response = await client.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {"ready": True, "checks": {"consumer": {"ok": True, "detail": "3 waiting"}}}


async def test_one_check_that_fails_makes_it_unready_and_says_why() -> None:
    async with calling(app_with(checks={"a": fine, "b": broken}), user=None) as client:
        response = await client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["checks"]["b"] == {"ok": False, "detail": "consumer x is gone"}


async def test_metrics_carry_the_services_own_too() -> None:
    registry = CollectorRegistry()
    Counter("trainmaster_things", "Things.", registry=registry).inc(3)
    async with calling(app_with(registry=registry), user=None) as client:
        page = (await client.get("/metrics")).text
    assert "trainmaster_things_total 3.0" in page


async def test_openapi_is_3_1_and_names_problems_and_the_token() -> None:
    async with calling(app_with(), user=None) as client:
        document = (await client.get("/openapi.json")).json()
    operation = document["paths"]["/v1/jobs/{job}"]["get"]
    assert document["openapi"].startswith("3.1")
    assert operation["security"] == [{"bearer": []}]
    assert operation["responses"]["default"]["content"]["application/problem+json"]["schema"]["$ref"].endswith(
        "Problem"
    )
    assert "422" not in operation["responses"]
    assert set(document["components"]["schemas"]) == {"Problem"}
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"


async def test_an_application_knows_the_prefixes_that_it_serves() -> None:
    assert parts_of(app_with()).prefixes == {"/v1/jobs"}
