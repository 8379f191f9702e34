"""A gateway that routes by the HTTPRoute of a rendering, to the pods that the named Services select, each in turn."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import httpx

from tests.support.helm import Manifest, named, of_kind
from tests.support.pods import Pods


def routes(manifests: Sequence[Manifest]) -> Mapping[str, str]:
    """Name of the Service for each path prefix."""
    (route,) = of_kind(manifests, "HTTPRoute")
    return {
        match["path"]["value"]: rule["backendRefs"][0]["name"]
        for rule in route["spec"]["rules"]
        for match in rule["matches"]
    }


class Gateway(httpx.BaseTransport):
    """A path belongs to a prefix where its first segments are the prefix's."""

    def __init__(self, pods: Pods) -> None:
        self._pods = pods
        self._routes = routes(pods.manifests)
        self._transport = httpx.HTTPTransport(retries=1)
        self._turn = itertools.count()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        prefixes = [p for p in self._routes if f"{request.url.path}/".startswith(f"{p}/")]
        if not prefixes:
            return httpx.Response(404, request=request)
        service = named(self._pods.manifests, "Service", self._routes[max(prefixes, key=len)])
        component = service["spec"]["selector"]["app.kubernetes.io/component"]
        pods = self._pods.of(component)
        url = request.url.copy_with(scheme="http", host=pods[next(self._turn) % len(pods)].address, port=8080)
        try:
            return self._transport.handle_request(
                httpx.Request(request.method, url, headers=request.headers, content=request.read())
            )
        except httpx.TransportError as error:
            return httpx.Response(502, request=request, text=str(error))

    def close(self) -> None:
        self._transport.close()
