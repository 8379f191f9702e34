from __future__ import annotations

from fastapi import FastAPI
from prometheus_client import CollectorRegistry, Counter, generate_latest

from shared.http.app import create_app
from shared.http.metrics import MergedRegistry
from shared.http.routing import api_router
from tests.support.http import KnownTokens, calling


def app() -> FastAPI:
    router = api_router()

    @router.get("/v1/jobs/{job}")
    async def job(job: int) -> int:
        return 1 // job

    return create_app(service="submitter", title="Jobs", routers=[router], auth=KnownTokens())


async def requests_counted(*calls: tuple[str, str]) -> list[str]:
    async with calling(app()) as client:
        for method, path in calls:
            await client.request(method, path)
        page = (await client.get("/metrics")).text
    return sorted(line for line in page.splitlines() if line.startswith("trainmaster_http_requests_total"))


async def test_requests_are_counted_by_the_routes_template() -> None:
    counted = await requests_counted(("GET", "/v1/jobs/1"), ("GET", "/v1/jobs/2"), ("GET", "/v1/jobs/0"))
    label = 'method="GET",route="/v1/jobs/{job}",service="submitter"'
    assert counted == [
        f'trainmaster_http_requests_total{{{label},status="200"}} 2.0',
        f'trainmaster_http_requests_total{{{label},status="500"}} 1.0',
    ]


async def test_labels_stay_bounded_whatever_clients_send() -> None:
    calls = [("GET", f"/v1/nowhere/{number}") for number in range(20)]
    calls += [(f"METHOD{number}", "/v1/jobs/1") for number in range(20)]
    assert len(await requests_counted(*calls)) == 2


async def test_health_pages_are_told_apart() -> None:
    counted = await requests_counted(("GET", "/healthz"))
    assert 'route="/healthz"' in counted[0]


def test_families_of_one_name_from_several_registries_become_one() -> None:
    registries = [CollectorRegistry(), CollectorRegistry()]
    for number, registry in enumerate(registries):
        Counter("trainmaster_things", "Things.", ("service",), registry=registry).labels(f"s{number}").inc()
    page = generate_latest(MergedRegistry(registries)).decode()
    assert page.count("# TYPE trainmaster_things_total counter") == 1
    assert 'trainmaster_things_total{service="s0"} 1.0' in page
    assert 'trainmaster_things_total{service="s1"} 1.0' in page
    assert generate_latest(MergedRegistry(registries)).decode() == page
