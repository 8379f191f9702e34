"""Several services behind one address, as a gateway would route them: by path prefix.

Used for one service too (`python -m services.watchdog`), so that health and metrics look the same everywhere. What no
service owns is answered by an application of the origin's own: its readiness is the sum of all checks, named
`<service>.<check>`, its metrics page has every registry and the process's figures, its OpenAPI document is the union.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from prometheus_client import CollectorRegistry, ProcessCollector
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.http import health, openapi
from shared.http.app import create_app, parts_of, prefix_of
from shared.http.metrics import MergedRegistry


class Origin:
    """The ASGI application that hands each request to the service that owns its prefix."""

    def __init__(self, apps: Sequence[FastAPI]) -> None:
        self._owners: dict[str, ASGIApp] = {}
        for app in apps:
            self._claim(app)
        self._own = _own_app(apps)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._owners.get(prefix_of(scope.get("path", "")), self._own)
        await app(scope, receive, send)

    def _claim(self, app: FastAPI) -> None:
        taken = parts_of(app).prefixes & self._owners.keys()
        if taken:
            raise ValueError(f"{parts_of(app).service} serves {sorted(taken)}, which another service serves already")
        self._owners |= dict.fromkeys(parts_of(app).prefixes, app)


def _own_app(apps: Sequence[FastAPI]) -> FastAPI:
    process = CollectorRegistry()
    ProcessCollector(registry=process)
    merged = MergedRegistry([*(parts_of(app).registry for app in apps), process])
    own = create_app(service="origin", title="Trainmaster", checks=_all_checks(apps), registry=merged)

    def union() -> dict[str, Any]:
        return openapi.merged((app.openapi() for app in apps), "Trainmaster")

    own.openapi = union  # type: ignore[method-assign]  # the way FastAPI documents for extending it
    return own


def _all_checks(apps: Sequence[FastAPI]) -> health.Checks:
    parts = [parts_of(app) for app in apps]
    return {f"{part.service}.{name}": check for part in parts for name, check in part.checks.items()}
