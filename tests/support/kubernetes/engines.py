"""Kubernetes engines over a test's cluster, what they report, and gangs for them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from kubernetes.aio.client import ApiClient
from services.scheduler.engines.kubernetes.api import Patience
from services.scheduler.engines.kubernetes.ending import Shipments
from services.scheduler.engines.kubernetes.engine import EngineSettings, KubernetesEngine
from services.scheduler.engines.kubernetes.objects import ObjectSettings
from services.scheduler.ports.gangs import GangStart, ReplicaStart
from shared.clock import Clock, SystemClock
from shared.errors import UnavailableError
from shared.ids import new_job_id
from shared.kubernetes.access import KubernetesApi, connect
from shared.kubernetes.names import GANG_LABEL, node_id
from shared.kubernetes.namespaces import Namespaces
from tests.support.kubernetes.clusters import Cluster
from tests.support.kubernetes.kubelet import SimulatedKubelet
from tests.support.kubernetes.nodes import NodeSpec
from tests.support.kubernetes.resources import Json
from tests.support.kubernetes.scripts import PodScript, annotated
from tests.support.local_engine import Bench

PLATFORM = "main"
"""Name of the cluster in the platform."""
KINDS = ("configmaps", "secrets", "services", "pods")
POLICIES = "networkpolicies"
NETWORKING = "networking.k8s.io/v1"
OF_KUBERNETES = "ca.crt"
"""How the names of config maps end that controllers make in every namespace."""
GONE_S = 30
COLLECTED_S = 150
"""The same where the API server was away: what collects the garbage then waits up to 60 s before it looks for changes,
and as long once more where the server that came back did not know its rights yet. (45 to 82 s on a real one.)"""
INSIST_S = 120
SENT_S = 0.2
"""How long what a process sent before it died may take to be done."""


class Shipped:
    """Agents that have shipped everything at once."""

    async def is_shipped(self, gang: str, nodes: Iterable[str]) -> bool:
        return True


class NeverShipped:
    """Agents that wait for more."""

    async def is_shipped(self, gang: str, nodes: Iterable[str]) -> bool:
        return False


class Mortal(KubernetesApi):
    """Access of a process that dies: once it `lives`, so many requests are made, and the next ones never."""

    def __init__(self, client: ApiClient, dies_after: int) -> None:
        super().__init__(client)
        self.left = dies_after
        self.lives = False
        self.dead = asyncio.Event()

    @classmethod
    def over(cls, api: KubernetesApi, dies_after: int) -> Mortal:
        return cls(api._client, dies_after)

    def live(self) -> None:
        self.lives = True

    async def exchange(self, *args: Any, **kwargs: Any) -> Any:
        if self.lives:
            self.left -= 1
            if self.left < 0:
                self.dead.set()
                await asyncio.Event().wait()
        return await super().exchange(*args, **kwargs)


def settings_for(cluster: Cluster, namespace: str = "", **changes: Any) -> EngineSettings:
    """In the test's own namespace, and in no hurry to lose nodes; a name of its own keeps tests apart on one server.

    Any gang counts as large, since the watch has most to do with such.
    """
    objects = ObjectSettings(
        namespaces=Namespaces(namespace or cluster.namespace),
        cluster=cluster.namespace,
        platform_image="registry.example/tm:1",
    )
    quick = EngineSettings(objects, patience=Patience(2.0, 0.05), clear_away_s=0.1, silence_s=5.0, large=1)
    return replace(quick, **changes)


@asynccontextmanager
async def engine_on(
    cluster: Cluster,
    settings: EngineSettings | None = None,
    clock: Clock | None = None,
    api: KubernetesApi | None = None,
    shipments: Shipments | None = None,
) -> AsyncIterator[Bench]:
    """An engine that is watched while the block runs."""
    clock = clock or SystemClock()
    api = api or await connect(kubeconfig=str(cluster.kubeconfig))
    engine = await KubernetesEngine.open(settings or settings_for(cluster), api, shipments or Shipped(), clock)
    bench = Bench(engine)
    watching = asyncio.create_task(bench.watch())
    try:
        yield bench
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await engine.close()


async def die_while_starting(
    cluster: Cluster, gang: GangStart, requests: int, settings: EngineSettings | None = None
) -> None:
    """A scheduler that makes so many requests of its start, and no more."""
    api = Mortal.over(await connect(kubeconfig=str(cluster.kubeconfig)), dies_after=requests)
    async with engine_on(cluster, settings, api=api) as desk:
        await desk.engine.inventory()
        api.live()
        start = asyncio.create_task(desk.engine.start(gang))
        await asyncio.wait({start, asyncio.create_task(api.dead.wait())}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(SENT_S)
        start.cancel()
        await asyncio.gather(start, return_exceptions=True)


async def insist(desk: Bench, gang: GangStart) -> None:
    """Start it, again and again, as the scheduler does."""
    async with asyncio.timeout(INSIST_S):
        while True:
            with suppress(UnavailableError):
                await desk.engine.start(gang)
                return
            await asyncio.sleep(0.05)


def node_name(cluster: Cluster, name: str) -> str:
    """Nodes belong to the whole of a cluster, in which other tests may have theirs."""
    return f"{cluster.namespace}-{name}"


@asynccontextmanager
async def kubelets(
    cluster: Cluster, *names: str, script: Callable[[Json], PodScript] = annotated, **more: Any
) -> AsyncIterator[SimulatedKubelet]:
    """Kubelets of nodes whose names are the test's own."""
    nodes = [NodeSpec(node_name(cluster, each), **more) for each in names]
    try:
        async with SimulatedKubelet(cluster.api, nodes, script) as found:
            yield found
    finally:
        for each in nodes:
            await cluster.api.delete(f"/api/v1/nodes/{each.name}")


def gang_on(cluster: Cluster, *nodes: str, replicas: int = 2, job: str = "", **parts: Any) -> GangStart:
    """A gang whose replicas are spread over nodes with these names."""
    job = job or new_job_id()
    made = tuple(
        ReplicaStart(
            "worker",
            index,
            node_id(cluster.namespace, node_name(cluster, nodes[index % len(nodes)])),
            _command(parts.get("command", "sleep 1000"), index),
            env={"TM_JOB_ID": job},
            memory_bytes=1 << 26,
            cpu_m=100,
        )
        for index in range(replicas)
    )
    rest = {
        "image": "registry.example/train:1",
        "files": {"hostfile": ""},
        **{key: part for key, part in parts.items() if key != "command"},
    }
    return GangStart(job, 1, "u-me", "default", PLATFORM, made, **rest)


def _command(commands: str | tuple[str, ...], index: int) -> str:
    return commands if isinstance(commands, str) else commands[index]


async def belongings(cluster: Cluster) -> Counter[str]:
    """Objects of the namespace by kind, to compare before and after; without what Kubernetes puts there in its time."""
    paths = {kind: cluster.path(kind) for kind in KINDS} | {POLICIES: cluster.path(POLICIES, group=NETWORKING)}
    found = {kind: await _items(path, cluster) for kind, path in paths.items()}
    return Counter(
        {kind: sum(not each["metadata"]["name"].endswith(OF_KUBERNETES) for each in found[kind]) for kind in found}
    )


async def pods_of(cluster: Cluster, gang: GangStart) -> list[Json]:
    return await _items(cluster.path("pods"), cluster, labelSelector=f"{GANG_LABEL}={gang.id}")


async def until_left(cluster: Cluster, before: Counter[str], limit_s: float = GONE_S) -> None:
    """Until the namespace holds what it held before; fails with what is left too long."""
    left = Counter[str]()
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            while (left := await belongings(cluster)) != before:
                await asyncio.sleep(0.05)
    assert left == before, f"{dict(left - before)} left, {dict(before - left)} gone"


async def _items(path: str, cluster: Cluster, **query: str) -> list[Json]:
    answer = await cluster.api.get(path, **query)
    assert answer.status == 200, answer.message
    items: list[Json] = answer.body["items"]
    return items
