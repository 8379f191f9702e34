"""What each verb of the API does to the registry, and what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from tests.support.kubernetes import resources as kinds
from tests.support.kubernetes.errors import ApiError, bad_request, no_such_path, unsupported_media
from tests.support.kubernetes.listing import listed
from tests.support.kubernetes.patches import patched
from tests.support.kubernetes.registry import Registry, delete_options
from tests.support.kubernetes.resources import Json
from tests.support.kubernetes.routes import Target
from tests.support.kubernetes.selectors import Selector, selector
from tests.support.kubernetes.watching import WatchQuery

WATCH_TIMEOUT_S: Final = 1800.0
SUCCESS: Final[Json] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
ANSWERED_WITH_OBJECT: Final = {kinds.PODS, kinds.SERVICES, kinds.NAMESPACES}
"""Kinds whose deletion is answered with the object; of the others it is a `Status`."""

LogSource = Callable[[Json, dict[str, str]], Awaitable[bytes]]


class Api:
    """The verbs."""

    def __init__(self, registry: Registry):
        self._registry = registry
        self.logs: LogSource | None = None

    def get(self, target: Target) -> Json:
        return self._registry.get(target.resource, target.namespace, target.name)

    def list(self, target: Target, query: dict[str, str]) -> Json:
        # A list of "whatever is at hand" comes from the watch cache, which knows no pages.
        limit = 0 if query.get("resourceVersion") == "0" else int(query.get("limit") or 0)
        chosen = selector_of(target, query)
        return listed(self._registry.store, target.resource, chosen, limit, query.get("continue", ""))

    async def log(self, target: Target, query: dict[str, str]) -> bytes:
        pod = self._registry.get(kinds.PODS, target.namespace, target.name)
        if self.logs is None or not pod["spec"].get("nodeName"):
            raise bad_request(f"pod {target.name} does not have a host assigned")
        return await self.logs(pod, query)

    def post(self, target: Target, body: Json) -> Json:
        if target.subresource == "binding":
            self._registry.bind(target.namespace, target.name, body)
            return {**SUCCESS, "code": 201}
        if target.subresource == "eviction":
            options = delete_options(body.get("deleteOptions") or {}, {})
            self._registry.evict(target.namespace, target.name, options)
            return {**SUCCESS, "code": 201}
        if target.name:
            raise not_allowed()
        if target.resource.namespaced and not target.namespace:
            raise no_such_path()
        return self._registry.create(target.resource, target.namespace, body)

    def put(self, target: Target, body: Json) -> Json:
        return self._registry.update(target.resource, target.namespace, target.name, body, target.subresource)

    def patch(self, target: Target, patch: Any, media_type: str) -> Json:
        if target.resource in kinds.VOLCANO and media_type == "application/strategic-merge-patch+json":
            raise unsupported_media(media_type)
        return self._registry.patch(
            target.resource,
            target.namespace,
            target.name,
            lambda item: patched(item, patch, media_type),
            target.subresource,
        )

    def delete(self, target: Target, body: Json, query: dict[str, str]) -> Json:
        options = delete_options(body, query)
        if not target.name:
            removed = self._registry.delete_all(target.resource, selector_of(target, query), options)
            header = {"kind": f"{target.resource.kind}List", "apiVersion": target.resource.api_version}
            return {**header, "metadata": {"resourceVersion": str(self._registry.store.revision)}, "items": removed}
        left, gone = self._registry.delete(target.resource, target.namespace, target.name, options)
        if not gone or target.resource in ANSWERED_WITH_OBJECT:
            return left
        group = {"group": target.resource.group} if target.resource.group else {}
        details = {"name": target.name, **group, "kind": target.resource.plural, "uid": left["metadata"]["uid"]}
        return {**SUCCESS, "details": details}


def not_allowed() -> ApiError:
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def selector_of(target: Target, query: dict[str, str]) -> Selector:
    namespace = target.namespace or None
    return selector(target.resource, namespace, query.get("labelSelector", ""), query.get("fieldSelector", ""))


def watch_query(target: Target, query: dict[str, str]) -> WatchQuery:
    initial = query.get("sendInitialEvents") == "true"
    wanted = query.get("resourceVersion", "")
    return WatchQuery(
        target.resource,
        selector_of(target, query),
        None if initial or wanted in {"", "0"} else int(wanted),
        float(query.get("timeoutSeconds") or WATCH_TIMEOUT_S),
        query.get("allowWatchBookmarks") == "true",
        initial,
    )
