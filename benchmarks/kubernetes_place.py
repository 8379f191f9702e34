"""Namespaces and nodes of a benchmark's own on a cluster, and gangs of a thousand pods for them.

The nodes are objects alone: nothing runs. Figures that are compared are taken in namespaces of their own, so that none
counts the other's pods, and a namespace is empty again, and what its emptying has set going done, before the next.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

from services.scheduler.engines.kubernetes.objects import ObjectSettings, gang_objects
from services.scheduler.ports.gangs import GangStart, ReplicaStart
from shared.environment import GangEnvironment, GangShape, RoleShape
from shared.errors import UnavailableError
from shared.ids import new_job_id
from shared.kubernetes.access import ApiError, KubernetesApi, connect
from shared.kubernetes.documents import Json
from shared.kubernetes.names import node_id
from shared.kubernetes.namespaces import Namespaces

REPLICAS = 1000
NODES = 10
PODS_A_NODE = 700
BARE, PEERS = "bare", "peers"
SETTLE_S = 2.0
POLL_S = 0.2
_MISSING = 404


@dataclass(frozen=True)
class Place:
    """A namespace, and the nodes that all namespaces of the benchmark have in common."""

    api: KubernetesApi
    cluster: str
    namespace: str

    @property
    def nodes(self) -> list[str]:
        return [f"{self.cluster}-{number}" for number in range(NODES)]

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def objects(self) -> ObjectSettings:
        return ObjectSettings(namespaces=Namespaces(self.namespace), cluster=self.cluster, platform_image="none")

    def room(self, name: str) -> Place:
        """The same in another namespace."""
        return replace(self, namespace=f"{self.cluster}-{name}")

    def gang(self) -> GangStart:
        job = new_job_id()
        shape = GangShape(job=job, name="bench", attempt=1, roles=(RoleShape("worker", REPLICAS, 0),), user={})
        environment = GangEnvironment(shape)
        ids = [node_id(self.cluster, node) for node in self.nodes]
        replicas = tuple(
            ReplicaStart(
                "worker",
                index,
                ids[index % NODES],
                "torchrun train.py",
                environment.variables("worker", index),
                memory_bytes=1 << 26,
                cpu_m=100,
            )
            for index in range(REPLICAS)
        )
        return GangStart(job, 1, "u-bench", "bench", "main", replicas, image="none", files=environment.files)

    async def documents(self) -> list[Json]:
        """The pods of a gang, bound to no node, whose record is there."""
        gang = self.gang()
        objects = gang_objects(gang, self.objects)
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        record = await self.api.request("POST", path, body=objects.record)
        return [objects.pod(replica, record["metadata"]["uid"]) for replica in gang.replicas]

    async def empty(self) -> None:
        """Have all pods and records gone, and all else that they bring about done."""
        while (await self.api.request("GET", self.pods, query={"limit": 1}))["items"]:
            with suppress(UnavailableError):
                await self.api.request("DELETE", self.pods, body={"gracePeriodSeconds": 0})
        await self.api.request("DELETE", f"/api/v1/namespaces/{self.namespace}/configmaps", body={})

    async def rest(self) -> None:
        """Have what was set going before done, before something is timed.

        A server in Go collects its garbage when its heap has doubled. With thousands of pods in it that takes a second
        of both cores, which would fall now into one figure's time and now into another's: so it is asked to do it now.
        """
        await asyncio.sleep(SETTLE_S)
        with suppress(ApiError, UnavailableError):
            await self.api.request("GET", "/debug/pprof/heap", query={"gc": 1})


def encoded(document: Json) -> bytes:
    """As it is sent."""
    return json.dumps(document, separators=(",", ":")).encode()


def on_node(document: Json, node: str) -> Json:
    """The pod as the engine makes it, on the node that was decided."""
    return {**document, "spec": {**document["spec"], "nodeName": node}}


@asynccontextmanager
async def place() -> AsyncIterator[Place]:
    """One whose rooms `BARE` and `PEERS` are there too."""
    name = f"tm-bench-{uuid.uuid4().hex[:6]}"
    async with await connect() as api:
        made = Place(api, name, name)
        rooms = [made, made.room(BARE), made.room(PEERS)]
        try:
            for each in rooms:
                await _make_namespace(each)
            for node in made.nodes:
                await _make_node(api, node)
            await asyncio.sleep(SETTLE_S)
            yield made
        finally:
            for each in rooms:
                await _remove(each)
            for node in made.nodes:
                await api.request("DELETE", f"/api/v1/nodes/{node}")


async def _make_namespace(where: Place) -> None:
    """With the account without which no pod can be made there."""
    await where.api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": where.namespace}})
    while not await _is_there(where.api, f"/api/v1/namespaces/{where.namespace}/serviceaccounts/default"):
        await asyncio.sleep(POLL_S)


async def _remove(where: Place) -> None:
    if await _is_there(where.api, f"/api/v1/namespaces/{where.namespace}"):
        await where.empty()
        await where.api.request("DELETE", f"/api/v1/namespaces/{where.namespace}")


async def _is_there(api: KubernetesApi, path: str) -> bool:
    try:
        await api.request("GET", path)
    except ApiError as error:
        if error.status != _MISSING:
            raise
        return False
    return True


async def _make_node(api: KubernetesApi, name: str) -> None:
    size = {"cpu": "1000", "memory": "4Ti", "pods": str(PODS_A_NODE)}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"capacity": size, "allocatable": size, "conditions": [ready]}
    await api.request("POST", "/api/v1/nodes", body={"metadata": {"name": name}, "status": status})
    await api.request("PATCH", f"/api/v1/nodes/{name}", body={"spec": {"taints": None}})
