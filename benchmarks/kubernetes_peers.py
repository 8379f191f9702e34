"""What stands beside the engine: bare loops of requests to the same API server, and kube-scheduler.

A bare loop sends what was encoded beforehand, reads the answers and drops them; it opens its connections as it goes, as
the engine does. Creates are of the very pods that the engine makes, nodes and all. kube-scheduler gets them without, as
fast as the bare loop goes; it is timed from the first create until a watch has told of the last binding, as whoever
waits for the gang would be told.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager

import aiohttp

from benchmarks.kubernetes_place import NODES, REPLICAS, Place, encoded, on_node
from services.scheduler.engines.kubernetes.crew import for_each
from services.scheduler.engines.kubernetes.starting import CREATES_AT_ONCE
from shared.clock import SystemClock
from shared.kubernetes.documents import Json
from shared.kubernetes.watch import ApiCollection, Changed, Listed, follow

BOUND_S = 150.0
START_S = 30.0
ALONE_S = 1.0
_MADE = (200, 201)

Posts = Callable[[Iterable[tuple[str, bytes]]], Awaitable[None]]


@asynccontextmanager
async def bare(where: Place) -> AsyncIterator[Posts]:
    """Sends bodies to paths, as many at once as the engine does."""
    client = where.api._client  # noqa: SLF001  # its address and its certificates
    connector = aiohttp.TCPConnector(limit=0, ssl=client.rest_client.ssl_context)
    headers: dict[str, str] = {"Content-Type": "application/json"}
    await client.update_params_for_auth(headers, [], ["BearerToken"], "/", "POST", None)
    async with aiohttp.ClientSession(client.configuration.host, connector=connector, headers=headers) as session:

        async def post(what: tuple[str, bytes]) -> None:
            async with session.post(what[0], data=what[1]) as answer:
                text = await answer.read()
                if answer.status not in _MADE:
                    raise SystemExit(f"{what[0]}: {answer.status} {text[:300]!r}")

        yield lambda all_: for_each(all_, post, CREATES_AT_ONCE)


async def created(where: Place) -> float:
    """Pods a second, each on its node; the namespace is empty before and after."""
    documents = [on_node(each, where.nodes[at % NODES]) for at, each in enumerate(await where.documents())]
    rate = await _rate(where, [(where.pods, encoded(each)) for each in documents])
    await where.empty()
    return rate


async def created_and_bound(where: Place) -> float:
    """Pods a second that are created on no node, and bound when all are there."""
    documents = await where.documents()
    create = await _rate(where, [(where.pods, encoded(each)) for each in documents])
    names = [each["metadata"]["name"] for each in documents]
    bindings = [_binding(name, where.nodes[at % NODES]) for at, name in enumerate(names)]
    bind = await _rate(
        where, [(f"{where.pods}/{each['metadata']['name']}/binding", encoded(each)) for each in bindings]
    )
    await where.empty()
    return 1 / (1 / create + 1 / bind)


async def _rate(where: Place, posts: list[tuple[str, bytes]]) -> float:
    await where.rest()
    async with bare(where) as send:
        begun = time.perf_counter()
        await send(posts)
        return len(posts) / (time.perf_counter() - begun)


def _binding(pod: str, node: str) -> Json:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}


# --- kube-scheduler


class PeerFailedError(Exception):
    """kube-scheduler did not do what was to be measured."""


async def scheduled_by_kubernetes(where: Place, program: str, flags: tuple[str, ...]) -> float:
    """Pods a second from their submission until the last of them is bound; the namespace is empty before and after."""
    documents = [
        {**each, "spec": {**each["spec"], "schedulerName": "default-scheduler"}} for each in await where.documents()
    ]
    posts = [(where.pods, encoded(each)) for each in documents]
    first = {**documents[0], "metadata": {"name": "first"}}
    try:
        async with bare(where) as send:
            await send([(where.pods, encoded(first))])
            await _nobody_else_binds(where)
            async with kube_scheduler(program, flags):
                await until_bound(where, 1, START_S)
                await where.rest()
                begun = time.perf_counter()
                await send(posts)
                await until_bound(where, REPLICAS + 1, BOUND_S)
                return REPLICAS / (time.perf_counter() - begun)
    finally:
        await where.empty()


@asynccontextmanager
async def kube_scheduler(program: str, flags: tuple[str, ...]) -> AsyncIterator[None]:
    command = [program, f"--kubeconfig={os.environ['KUBECONFIG']}", "--leader-elect=false", "--secure-port=0", *flags]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
        if process.poll() is not None:
            raise PeerFailedError(f"kube-scheduler has ended with {process.returncode}")
    finally:
        process.terminate()
        process.wait()


async def _nobody_else_binds(where: Place) -> None:
    await asyncio.sleep(ALONE_S)
    pod = await where.api.request("GET", f"{where.pods}/first")
    if pod["spec"].get("nodeName"):
        raise PeerFailedError("another kube-scheduler is running on this cluster; end it, or leave KUBE_SCHEDULER away")


async def until_bound(where: Place, count: int, within_s: float) -> None:
    """Until so many pods of the namespace have nodes."""
    bound: set[str] = set()
    pods = ApiCollection(where.api, where.pods, fields="spec.nodeName!=")
    try:
        async with (
            asyncio.timeout(within_s),
            aclosing(follow(pods, lambda pod: str(pod["metadata"]["name"]), SystemClock())) as told,
        ):
            async for news in told:
                match news:
                    case Listed(names):
                        bound.update(names)
                    case Changed(name):
                        bound.add(name)
                if len(bound) >= count:
                    return
    except TimeoutError:
        raise PeerFailedError(f"kube-scheduler has bound {len(bound)} of {count} pods in {within_s:g} s") from None
