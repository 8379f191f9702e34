"""`create_app`: one way to build the HTTP application of a service.

It puts the layers of this package together: request ids and traces outermost, then metrics, then the last resort, then
problem documents, then routes. It adds `/healthz` (the process runs), `/readyz` (it can work), `/metrics` and
`/openapi.json`, which need no token; every other route stands under `/v1/` in a router of `routing.api_router`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from fastapi import APIRouter, FastAPI
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shared.http import health, openapi, problems
from shared.http.metrics import HttpMetrics, MeasuringMiddleware
from shared.http.middleware import LastResortMiddleware, RequestIdMiddleware
from shared.http.routing import ApiRoute, Authenticator
from shared.telemetry import Tracing

API_ROOT: Final = "/v1"


@dataclass(frozen=True, slots=True)
class AppParts:
    """What an application was made of, for those who put several behind one address."""

    service: str
    checks: health.Checks = field(default_factory=dict)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    prefixes: frozenset[str] = frozenset()


def create_app(
    *,
    service: str,
    title: str,
    routers: Iterable[APIRouter] = (),
    auth: Authenticator | None = None,
    checks: health.Checks | None = None,
    registry: CollectorRegistry | None = None,
) -> FastAPI:
    """The application of `service`; `auth` may be left out only where every router is public."""
    own_registry = registry or CollectorRegistry()
    app = FastAPI(
        title=title,
        version=API_ROOT.removeprefix("/"),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=[
            Middleware(RequestIdMiddleware, service=service, tracing=Tracing(service)),
            Middleware(MeasuringMiddleware, metrics=HttpMetrics(service, own_registry)),
            Middleware(LastResortMiddleware),
        ],
    )
    prefixes: set[str] = set()
    for router in routers:
        prefixes |= _prefixes_of(router, has_auth=auth is not None)
        app.include_router(router)
    app.state.auth = auth
    app.state.parts = AppParts(service, checks or {}, own_registry, frozenset(prefixes))
    _add_operations(app)
    problems.install(app)
    openapi.complete(app)
    return app


def parts_of(app: FastAPI) -> AppParts:
    """What `create_app` made the application of."""
    parts: AppParts = app.state.parts
    return parts


def prefix_of(path: str) -> str:
    """The part of a path by which a gateway routes: `/v1/jobs` of `/v1/jobs/{job}/events`."""
    return "/".join(path.split("/", 3)[:3])


def _prefixes_of(router: APIRouter, *, has_auth: bool) -> set[str]:
    """Prefixes that the router serves, once it is certain that each route has a policy that can be kept."""
    for route in router.routes:
        if not isinstance(route, ApiRoute):
            raise TypeError(f"{route!r} is not of a router made by shared.http.routing.api_router")
        if not route.path.startswith(API_ROOT + "/"):
            raise ValueError(f"{route.path} does not stand under {API_ROOT}/")
        if not (route.policy.public or has_auth):
            raise ValueError(f"{route.path} needs a token, but create_app was given no auth to check it with")
    return {prefix_of(route.path) for route in router.routes if isinstance(route, ApiRoute)}


def _add_operations(app: FastAPI) -> None:
    """The pages for machines that look after the service."""
    parts = parts_of(app)

    async def alive(_request: Request) -> Response:
        return JSONResponse({"alive": True})

    async def ready(_request: Request) -> Response:
        readiness = await health.run_checks(parts.checks)
        return JSONResponse(readiness.document(), 200 if readiness.ready else 503)

    async def metrics(_request: Request) -> Response:
        return Response(generate_latest(parts.registry), media_type=CONTENT_TYPE_LATEST)

    for path, endpoint in (("/healthz", alive), ("/readyz", ready), ("/metrics", metrics)):
        app.add_route(path, endpoint, include_in_schema=False)
