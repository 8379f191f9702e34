"""How fast gangs start on Kubernetes, and what watching them costs; against the API server that `KUBECONFIG` names.

What the engine reaches stands beside what a bare loop of requests gets from the same server in the same run, with as
many at once. Where `KUBE_SCHEDULER` names the program kube-scheduler, that is measured too, with its default settings
and with its limits raised; no other one may be running. The nodes are objects alone: nothing runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from benchmarks.report import Row, percentile, progress, report
from services.scheduler.engines.kubernetes.crew import for_each
from services.scheduler.engines.kubernetes.engine import EngineSettings, KubernetesEngine
from services.scheduler.engines.kubernetes.objects import ObjectSettings, gang_objects
from services.scheduler.engines.kubernetes.objects.namespaces import Namespaces
from services.scheduler.engines.kubernetes.starting import CREATES_AT_ONCE
from services.scheduler.ports.gangs import GangStart, ReplicaStart
from services.scheduler.ports.reports import CaughtUp
from shared.clock import SystemClock
from shared.environment import GangEnvironment, GangShape, RoleShape
from shared.ids import new_job_id
from shared.kubernetes.access import KubernetesApi, connect
from shared.kubernetes.documents import Json
from shared.kubernetes.names import node_id

REPLICAS = 1000
WATCHED_GANGS = 5
NODES = 10
PODS_A_NODE = 600
CHANGES = 20
BOUND_S = 180.0
RAISED = ("--kube-api-qps=2000", "--kube-api-burst=4000")


class Shipped:
    async def is_shipped(self, gang: str, nodes: object) -> bool:
        return bool(gang and nodes)


class Timed(KubernetesApi):
    """Notes when requests began and ended."""

    def __init__(self, api: KubernetesApi) -> None:
        super().__init__(api._client)  # noqa: SLF001  # the same access
        self.spans: list[tuple[str, float, float]] = []

    async def exchange(self, method: Any, path: str, **rest: Any) -> bytes:
        begun = time.perf_counter()
        try:
            return await super().exchange(method, path, **rest)
        finally:
            self.spans.append((f"{method} {path}", begun, time.perf_counter()))

    def rate(self, ending: str) -> float:
        """How many such requests a second, from the first to the last."""
        chosen = [(begun, ended) for name, begun, ended in self.spans if name.endswith(ending)]
        return len(chosen) / (max(ended for _, ended in chosen) - min(begun for begun, _ in chosen))


@dataclass(frozen=True)
class Place:
    """A namespace and nodes of the benchmark's own."""

    api: KubernetesApi
    name: str

    @property
    def nodes(self) -> list[str]:
        return [f"{self.name}-{number}" for number in range(NODES)]

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.name}/pods"

    @property
    def objects(self) -> ObjectSettings:
        return ObjectSettings(namespaces=Namespaces(self.name), cluster=self.name, platform_image="none")

    def gang(self) -> GangStart:
        job = new_job_id()
        shape = GangShape(job=job, name="bench", attempt=1, roles=(RoleShape("worker", REPLICAS, 0),), user={})
        environment = GangEnvironment(shape)
        ids = [node_id(self.name, node) for node in self.nodes]
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


@asynccontextmanager
async def place() -> AsyncIterator[Place]:
    api = await connect()
    made = Place(api, f"tm-bench-{uuid.uuid4().hex[:6]}")
    await api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": made.name}})
    try:
        for node in made.nodes:
            await _make_node(api, node)
        await asyncio.sleep(2)
        yield made
    finally:
        await api.request("DELETE", f"/api/v1/namespaces/{made.name}")
        for node in made.nodes:
            await api.request("DELETE", f"/api/v1/nodes/{node}")
        await api.close()


async def _make_node(api: KubernetesApi, name: str) -> None:
    size = {"cpu": "1000", "memory": "4Ti", "pods": str(PODS_A_NODE)}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"capacity": size, "allocatable": size, "conditions": [ready]}
    await api.request("POST", "/api/v1/nodes", body={"metadata": {"name": name}, "status": status})
    await api.request("PATCH", f"/api/v1/nodes/{name}", body={"spec": {"taints": None}})


# --- what a bare loop gets


@asynccontextmanager
async def bare(where: Place) -> AsyncIterator[Callable[[str, Json], Awaitable[None]]]:
    """Requests with nothing around them: encoded beforehand by whoever asks, answers read and dropped."""
    client = where.api._client  # noqa: SLF001  # its address and its certificates
    connector = aiohttp.TCPConnector(limit=0, ssl=client.rest_client.ssl_context)
    headers: dict[str, str] = {"Content-Type": "application/json"}
    await client.update_params_for_auth(headers, [], ["BearerToken"], "/", "POST", None)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def post(path: str, document: Json) -> None:
            data = json.dumps(document, separators=(",", ":")).encode()
            async with session.post(client.configuration.host + path, data=data) as answer:
                text = await answer.read()
                if answer.status not in (200, 201):
                    raise SystemExit(f"{path}: {answer.status} {text[:300]!r}")

        yield post


async def bare_loops(where: Place) -> tuple[float, float]:
    """Pods a second that can be created, and bound."""
    gang = where.gang()
    objects = gang_objects(gang, where.objects)
    record = await where.api.request("POST", f"/api/v1/namespaces/{where.name}/configmaps", body=objects.record)
    documents = [objects.pod(replica, record["metadata"]["uid"]) for replica in gang.replicas]
    async with bare(where) as post:
        create_s = await _timed(for_each(documents, lambda each: post(where.pods, each), CREATES_AT_ONCE))
        bindings = [_binding(each["metadata"]["name"], where.nodes[at % NODES]) for at, each in enumerate(documents)]
        bind_s = await _timed(
            for_each(
                bindings, lambda each: post(f"{where.pods}/{each['metadata']['name']}/binding", each), CREATES_AT_ONCE
            )
        )
    await _remove(where, gang)
    return REPLICAS / create_s, REPLICAS / bind_s


def _binding(pod: str, node: str) -> Json:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}


async def _timed(work: Awaitable[None]) -> float:
    begun = time.perf_counter()
    await work
    return time.perf_counter() - begun


async def _remove(where: Place, gang: GangStart) -> None:
    """What the next figure would otherwise have to carry along."""
    query = {"labelSelector": f"trainmaster.dev/gang={gang.id}"}
    await where.api.request("DELETE", where.pods, query=query, body={"gracePeriodSeconds": 0})
    await where.api.request("DELETE", f"/api/v1/namespaces/{where.name}/configmaps/{gang.id}", body={})


# --- kube-scheduler


@asynccontextmanager
async def kube_scheduler(program: str, flags: tuple[str, ...]) -> AsyncIterator[None]:
    command = [program, f"--kubeconfig={os.environ['KUBECONFIG']}", "--leader-elect=false", "--secure-port=0", *flags]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


async def scheduled_by_kubernetes(where: Place, program: str, flags: tuple[str, ...]) -> float:
    """Pods a second from their submission until the last of them is bound."""
    gang = where.gang()
    objects = gang_objects(gang, where.objects)
    record = await where.api.request("POST", f"/api/v1/namespaces/{where.name}/configmaps", body=objects.record)
    documents = [objects.pod(replica, record["metadata"]["uid"]) for replica in gang.replicas]
    documents = [{**each, "spec": {**each["spec"], "schedulerName": "default-scheduler"}} for each in documents]
    async with kube_scheduler(program, flags), bare(where) as post:
        first = {**documents[0], "metadata": {**documents[0]["metadata"], "name": "first", "ownerReferences": []}}
        await post(where.pods, first)
        await _until_bound(where, 1)
        begun = time.perf_counter()
        await for_each(documents, lambda each: post(where.pods, each), CREATES_AT_ONCE)
        await _until_bound(where, REPLICAS + 1)
        took_s = time.perf_counter() - begun
    await _remove(where, gang)
    return REPLICAS / took_s


async def _until_bound(where: Place, count: int) -> None:
    """Until so many pods have nodes; told by a watch, as whoever waits for them would be."""
    bound: set[str] = set()
    query = {"watch": "true", "fieldSelector": "spec.nodeName!=", "resourceVersion": "0"}
    async with asyncio.timeout(BOUND_S):
        stream = await where.api.lines(where.pods, query=query, silence_s=BOUND_S)
        async for event in stream:
            bound.add(event["object"]["metadata"]["uid"])
            if len(bound) >= count:
                break
        await stream.aclose()


# --- watching


async def watching(where: Place, gangs: list[GangStart]) -> tuple[float, list[float]]:
    """Memory in MB of a scheduler that watches all these pods, and the seconds until it knew each of some changes."""
    command = [sys.executable, "-m", "benchmarks.kubernetes_watch", where.name, str(len(gangs) * REPLICAS)]
    child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, limit=1 << 20)
    try:
        told = child.stdout or asyncio.StreamReader()
        memory_mb = float(await told.readline())
        took = []
        for number in range(CHANGES):
            gang = gangs[number % len(gangs)]
            begun = time.time()
            await _exit(where, gang.replica_id(gang.replicas[number * 7]))
            took.append(float(await told.readline()) - begun)
        return memory_mb, took
    finally:
        child.kill()
        await child.wait()


async def _run(where: Place, gang: GangStart) -> None:
    """All pods of the gang run, as kubelets would tell."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    state = {"running": {"startedAt": now}}

    async def run(replica: ReplicaStart) -> None:
        await _tell(where, gang.replica_id(replica), "Running", state)

    await for_each(gang.replicas, run, CREATES_AT_ONCE)


async def _exit(where: Place, pod: str) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    state = {"terminated": {"exitCode": 3, "reason": "Error", "startedAt": now, "finishedAt": now}}
    await _tell(where, pod, "Failed", state)


async def _tell(where: Place, pod: str, phase: str, state: Json) -> None:
    container = {"name": "replica", "image": "none", "imageID": "none", "ready": False, "restartCount": 0}
    status = {"phase": phase, "containerStatuses": [{**container, "state": state}]}
    await where.api.request("PATCH", f"{where.pods}/{pod}/status", body={"status": status})


# --- all of it


@dataclass(frozen=True)
class Round:
    """Pods a second of a bare loop and of a gang's start right after it, and milliseconds of our CPU for each pod.

    `whole` is from submission until all pods are there, bound and free to run.
    """

    bare_create: float
    bare_bind: float
    create: float
    whole: float
    cpu_ms: float

    def told(self) -> str:
        bare_loop = f"bare loop {self.bare_create:.0f} created and {self.bare_bind:.0f} bound a second"
        return (
            f"{bare_loop}; engine {self.create:.0f} created, {self.whole:.0f} in all, {self.cpu_ms:.2f} ms of CPU a pod"
        )


async def measure() -> list[Row]:
    program = os.environ.get("KUBE_SCHEDULER", "")
    async with place() as where:
        rounds, gangs = [], []
        for _ in range(WATCHED_GANGS):
            progress(f"{REPLICAS} pods by a bare loop, then as a gang by the engine, {CREATES_AT_ONCE} at once")
            bare_create, bare_bind = await bare_loops(where)
            gang = where.gang()
            rounds.append(Round(bare_create, bare_bind, *await start_gang(where, gang)))
            gangs.append(gang)
            progress(rounds[-1].told())
        peers = {}
        for name, flags in (("default", ()), ("raised limits", RAISED)) if program else ():
            progress(f"kube-scheduler, {name}")
            peers[name] = await scheduled_by_kubernetes(where, program, flags)
            progress(f"{peers[name]:.0f} pods a second from submission to all bound")
        progress(f"{len(gangs) * REPLICAS} pods that run are watched")
        for gang in gangs:
            await _run(where, gang)
        memory_mb, took = await watching(where, gangs)
    return _rows(rounds, peers, memory_mb, took)


async def start_gang(where: Place, gang: GangStart) -> tuple[float, float, float]:
    """Pods a second, created and in all, and milliseconds of the processor for each."""
    api = Timed(await connect())
    engine = await KubernetesEngine.open(EngineSettings(where.objects), api, Shipped(), SystemClock())
    await engine.inventory()
    await _catch_up(engine)
    api.spans.clear()
    cpu_s = time.process_time()
    took_s = await _timed(engine.start(gang))
    cpu_s = time.process_time() - cpu_s
    await engine.close()
    return api.rate("/pods"), REPLICAS / took_s, cpu_s / REPLICAS * 1000


async def _catch_up(engine: KubernetesEngine) -> None:
    """The engine knows all that ran before, as one that has led for a while does."""
    async for told in engine.observe():
        if isinstance(told, CaughtUp):
            return


def _rows(rounds: list[Round], peers: dict[str, float], memory_mb: float, took: list[float]) -> list[Row]:
    create, whole, cpu_ms, bare_create, bare_bind = (
        statistics.median(getattr(each, name) for each in rounds)
        for name in ("create", "whole", "cpu_ms", "bare_create", "bare_bind")
    )
    both = 1 / (1 / bare_create + 1 / bare_bind)
    rows = [
        Row("pods created", create, "1/s", "higher", bare_create * 0.8, "bare create loop", bare_create),
        Row("submission to all bound", whole, "1/s", "higher", None, "bare bind loop alone", bare_bind),
        Row("submission to all bound", whole, "1/s", "higher", None, "bare create, then bind", both),
        Row("processor time a pod", cpu_ms, "ms", "lower"),
    ]
    goals = {"default": 10.0, "raised limits": 2.5}
    for name, rate in peers.items():
        goal = rate * goals[name]
        rows.append(Row("submission to all bound", whole, "1/s", "higher", goal, f"kube-scheduler, {name}", rate))
    rows.append(Row("memory of the scheduler", memory_mb, "MB", "lower", 500))
    rows.append(Row("a change is known, median", percentile(took, 50), "s", "lower", 1))
    rows.append(Row("a change is known, slowest", max(took), "s", "lower", 1))
    return rows


def main() -> None:
    if not os.environ.get("KUBECONFIG"):
        raise SystemExit(
            "KUBECONFIG is not set; give the configuration of a cluster on which namespaces and nodes may be made"
        )
    report("kubernetes", asyncio.run(measure()))


if __name__ == "__main__":
    main()
