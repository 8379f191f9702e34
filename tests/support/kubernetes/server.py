"""The test server: the Kubernetes API over a real socket, in plain HTTP.

One handler takes every request: it finds the object or list that the path means, lets the faults of the test have their
say, and leaves the rest to the registry. Behind it a sweep does what the controller manager would: a moment after the
last owner of an object is gone, so is the object.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml
from aiohttp import web

from tests.support.kubernetes import resources as kinds
from tests.support.kubernetes.api import Api, not_allowed, watch_query
from tests.support.kubernetes.discovery import discovery
from tests.support.kubernetes.errors import ApiError, bad_request, unsupported_media
from tests.support.kubernetes.faults import Faults
from tests.support.kubernetes.garbage import GarbageCollector
from tests.support.kubernetes.registry import Registry
from tests.support.kubernetes.resources import Json
from tests.support.kubernetes.routes import Target, target_of
from tests.support.kubernetes.store import Change, Store
from tests.support.kubernetes.watching import Watch, WatchCutError, WatchQuery

FIRST_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
SWEEP_DELAY_S: Final = 0.02
MAX_BODY_BYTES: Final = 3 << 20


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ApiServer:
    """A Kubernetes API server whose cluster is empty: no nodes, and nobody runs pods."""

    def __init__(
        self,
        *,
        volcano: bool = False,
        bookmark_interval_s: float = 60.0,
    ):
        self.resources = kinds.BUILT_IN + (kinds.VOLCANO if volcano else ())
        self.store = Store()
        self.faults = Faults(self.store.pulse)
        self.registry = Registry(self.store, _utc_now)
        self.requests: Counter[str] = Counter()
        """How many requests came, by verb and kind: `create pods`, `watch nodes`, `create pods/binding`."""
        self.denied: set[str] = set()
        """What reviews of access say that nobody may do, as `create pods`; it is done all the same."""
        self.watches = 0
        """How many watches are open."""
        self.api = Api(self.registry)
        self.commands: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
        """Who runs commands in pods; without it nobody does."""
        self.account_delay_s = 0.0
        """How long a new namespace is without its service account, and so without pods; a real one is for a moment."""
        self.port = 0
        self._bookmark_interval_s = bookmark_interval_s
        self._collector = GarbageCollector(self.store, self.registry)
        self._sweep: asyncio.TimerHandle | None = None
        self._runner: web.AppRunner | None = None
        self._transports: set[asyncio.BaseTransport] = set()
        self.store.on_change = self._noticed
        for name in FIRST_NAMESPACES:
            self.make_namespace(name)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def make_namespace(self, name: str) -> None:
        """One more namespace."""
        self.registry.create(kinds.NAMESPACES, "", {"metadata": {"name": name}})

    def write_kubeconfig(self, path: Path) -> Path:
        """Tell clients where the server is."""
        named = {"name": "test"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{**named, "cluster": {"server": self.url}}],
            "users": [{**named, "user": {"token": "test-token"}}],
            "contexts": [{**named, "context": {"cluster": "test", "user": "test"}}],
        }
        path.write_text(yaml.safe_dump(config))
        return path

    def count(self, plural: str, namespace: str | None = None) -> int:
        """How many objects of a kind there are."""
        return self.counts(namespace)[plural]

    def counts(self, namespace: str | None = None) -> Counter[str]:
        """Objects by kind, to compare before and after."""
        return Counter(
            resource.plural
            for resource, item in self.store.everything()
            if namespace is None or item["metadata"].get("namespace") == namespace
        )

    def compact(self) -> None:
        """Forget all that was before: older watches and pages expire."""
        self.store.compact()

    async def start(self) -> None:
        """Listen; after `stop` again on the same port, with the same objects."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Break every connection and refuse new ones."""
        runner, self._runner = self._runner, None
        for transport in list(self._transports):
            transport.abort()  # type: ignore[attr-defined]
        if runner is not None:
            await runner.cleanup()

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """Nobody listens inside."""
        await self.stop()
        try:
            yield
        finally:
            await self.start()

    def _noticed(self, change: Change) -> None:
        metadata = change.item["metadata"]
        if change.item["kind"] == "Namespace" and change.type == "ADDED":
            if self.account_delay_s:
                asyncio.get_running_loop().call_later(self.account_delay_s, self._make_account, metadata["name"])
            else:
                self._make_account(metadata["name"])
        owners = metadata.get("ownerReferences") or []
        lost_owner = bool(owners) and all(each["uid"] not in self.store.uids for each in owners)
        if (change.type == "DELETED" or metadata.get("deletionTimestamp") or lost_owner) and self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(SWEEP_DELAY_S, self._do_sweep)

    def _make_account(self, namespace: str) -> None:
        with contextlib.suppress(ApiError):  # the namespace may have ended meanwhile
            self.registry.create(kinds.SERVICE_ACCOUNTS, namespace, {"metadata": {"name": "default"}})

    def _do_sweep(self) -> None:
        try:
            self._collector.sweep()
        finally:
            self._sweep = None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        line = f"{request.method} {request.path_qs}"
        assert request.transport is not None
        self._transports = {each for each in self._transports if not each.is_closing()} | {request.transport}
        try:
            if self.faults.take("drop", line):
                return _broken(request)
            if late := self.faults.take("delay", line):
                await asyncio.sleep(late.delay_s)
            if refused := self.faults.take("refuse", line):
                raise refused.error()
            answer = await self._handle(request)
        except ApiError as error:
            headers = {} if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
            return web.json_response(error.status(), status=error.code, headers=headers)
        return _broken(request) if self.faults.take("lose answer", line) else answer

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if (document := discovery(request.path, self.resources)) is not None:
            return web.json_response(document)
        if request.path == ACCESS_REVIEWS and request.method == "POST":
            return web.json_response(self._reviewed(await _body(request)), status=201)
        target = target_of(request.path, self.resources)
        query = dict(request.query)
        watching = request.method == "GET" and not target.name and query.get("watch") in {"1", "true"}
        self._note(request.method, target, watching=watching)
        if watching:
            return await self._watch(request, watch_query(target, query))
        if target.subresource == "log" and request.method == "GET":
            return web.Response(body=await self.api.log(target, query), content_type="text/plain")
        if target.subresource == "exec" and self.commands is not None:
            return await self.commands(request)
        status = 201 if request.method == "POST" else 200
        return web.json_response(self._done(request, target, query, await _body(request)), status=status)

    def _reviewed(self, review: Json) -> Json:
        """What the only user may do: everything but what is denied."""
        asked = review["spec"]["resourceAttributes"]
        return {**review, "status": {"allowed": f"{asked['verb']} {asked['resource']}" not in self.denied}}

    def _done(self, request: web.Request, target: Target, query: dict[str, str], body: Any) -> Json:
        match request.method, bool(target.name):
            case "GET", False:
                return self.api.list(target, query)
            case "GET", True:
                return self.api.get(target)
            case "POST", _:
                return self.api.post(target, body)
            case "PUT", True:
                return self.api.put(target, body)
            case "PATCH", True:
                return self.api.patch(target, body, request.content_type)
            case "DELETE", _:
                return self.api.delete(target, body, query)
        raise not_allowed()

    def _note(self, method: str, target: Target, *, watching: bool) -> None:
        verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
        reading = "watch" if watching else "get" if target.name else "list"
        kind = "/".join(filter(None, (target.resource.plural, target.subresource)))
        self.requests[f"{verbs.get(method, reading)} {kind}"] += 1

    async def _watch(self, request: web.Request, query: WatchQuery) -> web.StreamResponse:
        watch = Watch(
            self.store,
            self.faults,
            query,
            bookmark_interval_s=self._bookmark_interval_s,
            clock=time.monotonic,
        )
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        error = watch.start_error()
        if error is not None and self.faults.gone_as_status:
            raise error
        await response.prepare(request)
        self.watches += 1
        try:
            async for line in watch.lines():
                await response.write(line)
        except WatchCutError as cut:
            await response.write(cut.last_bytes or b"")
            return _broken(request, response)
        except ConnectionError:
            return response
        finally:
            self.watches -= 1
        await response.write_eof()
        return response


async def _body(request: web.Request) -> Any:
    """The request's JSON: a patch whatever it may be, else an object; none at all is an empty one."""
    text = await request.read()
    if not text:
        return {}
    patching = request.method == "PATCH"
    if not patching and request.content_type != "application/json":
        raise unsupported_media(request.content_type)
    try:
        body = json.loads(text)
    except ValueError as error:
        raise bad_request(f"the object provided is unrecognized (must be of type JSON): {error}") from error
    if not patching and not isinstance(body, dict):
        raise bad_request("the object provided is unrecognized: it is no JSON object")
    return body


def _broken(request: web.Request, response: web.StreamResponse | None = None) -> web.StreamResponse:
    """End the connection as a server that dies does."""
    if request.transport is not None:
        request.transport.close()
    return response or web.Response(status=500)
