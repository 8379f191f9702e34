"""HTTP metrics of one service, and one page for the metrics of several.

Labels are bounded whatever clients send: the route's template instead of the path, and known
methods only. Each service keeps a registry of its own, so that
services can share a process; `MergedRegistry` shows them as one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.telemetry import bounded

METHODS: Final = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS")
OPERATIONS: Final = ("/healthz", "/readyz", "/metrics", "/openapi.json")
_SECONDS_BUCKETS: Final = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)


class HttpMetrics:
    """Requests by route, and how many are open; streams count when they end."""

    def __init__(self, service: str, registry: CollectorRegistry) -> None:
        labels = ("service", "method", "route")
        self._service = service
        self._requests = Counter(
            "trainmaster_http_requests", "Requests answered.", (*labels, "status"), registry=registry
        )
        self._seconds = Histogram(
            "trainmaster_http_request_seconds",
            "Time until the response began.",
            labels,
            registry=registry,
            buckets=_SECONDS_BUCKETS,
        )
        self._open = Gauge("trainmaster_http_open_requests", "Requests in hand.", ("service",), registry=registry)
        self.open = self._open.labels(service)

    def record(self, scope: Scope, status: int, seconds: float) -> None:
        """Count one finished request under its route template."""
        labels = (self._service, bounded(scope["method"], METHODS), route_template(scope))
        self._requests.labels(*labels, str(status)).inc()
        self._seconds.labels(*labels).observe(seconds)


class MeasuringMiddleware:
    """Feeds `HttpMetrics`; a response that never began counts as status 499."""

    def __init__(self, app: ASGIApp, metrics: HttpMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status, seconds = 499, 0.0

        async def noting_send(message: Message) -> None:
            nonlocal status, seconds
            if message["type"] == "http.response.start":
                status, seconds = message["status"], time.perf_counter() - began
            await send(message)

        with self._metrics.open.track_inprogress():
            try:
                await self._app(scope, receive, noting_send)
            finally:
                self._metrics.record(scope, status, seconds)


def route_template(scope: Scope) -> str:
    """`/v1/jobs/{job}`, never the path that a client sent."""
    template: str | None = getattr(scope.get("route"), "path", None)
    return template or bounded(scope["path"], OPERATIONS)


class MergedRegistry(CollectorRegistry):
    """A registry that shows, beside its own metrics, those of others; families of one name become one."""

    def __init__(self, others: Iterable[CollectorRegistry]) -> None:
        super().__init__()
        self._others = tuple(others)

    def collect(self) -> Iterator[Metric]:
        """Every family once."""
        families: dict[str, Metric] = {}
        for family in chain(super().collect(), *(other.collect() for other in self._others)):
            known = families.setdefault(family.name, family)
            if known is not family:
                known.samples.extend(family.samples)
        yield from families.values()
