"""How fast gangs start on Kubernetes, and what watching them costs; against the API server that `KUBECONFIG` names.

What the engine reaches stands beside what a bare loop of requests gets from the same server, with as many at once, and,
where `KUBE_SCHEDULER` names the program kube-scheduler, beside that with its limits raised: in turns, each on a cluster
that is empty again. With its default settings it is so slow and so even that it is measured once. No other
kube-scheduler may be running. The nodes are objects alone: nothing runs.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from benchmarks.kubernetes_peers import PeerFailedError, created, created_and_bound, scheduled_by_kubernetes
from benchmarks.kubernetes_place import BARE, PEERS, REPLICAS, Place, place
from benchmarks.report import Row, percentile, progress, report
from services.scheduler.control.gangs import Gangs
from services.scheduler.control.troubles import Troubles
from services.scheduler.engines.kubernetes.crew import for_each
from services.scheduler.engines.kubernetes.engine import EngineSettings, KubernetesEngine
from services.scheduler.engines.kubernetes.starting import CREATES_AT_ONCE
from services.scheduler.ports.gangs import GangStart, ReplicaStart
from shared.clock import SystemClock
from shared.kubernetes.access import KubernetesApi, connect
from shared.kubernetes.documents import Json
from shared.tasks import end

ROUNDS = 5
WATCHED_GANGS = 5
CHANGES = 20
RAISED_LIMITS = ("--kube-api-qps=2000", "--kube-api-burst=4000")
DEFAULT, RAISED, CREATE_THEN_BIND = "kube-scheduler, default", "kube-scheduler, raised limits", "bare create, then bind"
GOALS = {DEFAULT: 10.0, RAISED: 2.5}
"""How many times as fast a gang is to be."""


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


# --- the engine


@dataclass(frozen=True)
class Start:
    """Pods a second of a gang's start, and milliseconds of our CPU for each pod.

    `whole` is from submission until all pods are there, bound and free to run, which is checked.
    """

    create: float
    whole: float
    cpu_ms: float

    def told(self) -> str:
        return f"{self.create:.0f} a second, {self.whole:.0f} with all else, {self.cpu_ms:.2f} ms of CPU a pod"


async def start_gang(where: Place, gang: GangStart) -> Start:
    """By an engine that knows all that ran before and reports what happens, as one that has led for a while does."""
    api = Timed(await connect())
    engine = await KubernetesEngine.open(EngineSettings(where.objects), api, Shipped(), SystemClock())
    gangs = Gangs(engine, SystemClock(), lambda _: None, Troubles())
    observing = asyncio.create_task(gangs.observe())
    await engine.inventory()
    await gangs.caught_up((where.cluster,))
    await where.rest()
    api.spans.clear()
    cpu_s, begun = time.process_time(), time.perf_counter()
    await engine.start(gang)
    took_s, cpu_s = time.perf_counter() - begun, time.process_time() - cpu_s
    create = api.rate("/pods")
    await _check(where, gang)
    await end(observing)
    await engine.close()
    return Start(create, REPLICAS / took_s, cpu_s / REPLICAS * 1000)


async def _check(where: Place, gang: GangStart) -> None:
    query = {"labelSelector": f"trainmaster.dev/gang={gang.id}", "fieldSelector": "spec.nodeName!="}
    found = await where.api.request("GET", where.pods, query=query)
    if len(found["items"]) != REPLICAS:
        raise SystemExit(f"{len(found['items'])} of {REPLICAS} pods are bound")


# --- watching


async def watching(where: Place, gangs: list[GangStart]) -> tuple[float, list[float]]:
    """Memory in MB of a scheduler that watches all these pods, and the seconds until it knew each of some changes."""
    command = [sys.executable, "-m", "benchmarks.kubernetes_watch", where.cluster, str(len(gangs) * REPLICAS)]
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


@dataclass
class Found:
    """What was measured, round after round; peers by their names."""

    starts: list[Start] = field(default_factory=list)
    loops: list[float] = field(default_factory=list)
    peers: dict[str, list[float]] = field(default_factory=dict)


async def measure() -> list[Row]:
    progress(
        f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, shared with the API server if it is here"
    )
    found = Found()
    async with place() as where:
        await _peer(where, DEFAULT, (), found)
        for _ in range(ROUNDS):
            await _round(where, found)
        found.peers[CREATE_THEN_BIND] = [await created_and_bound(where.room(BARE))]
        progress(f"{WATCHED_GANGS * REPLICAS} pods that run are watched")
        gangs = [where.gang() for _ in range(WATCHED_GANGS)]
        for gang in gangs:
            await start_gang(where, gang)
            await _run(where, gang)
        memory_mb, took = await watching(where, gangs)
    return _rows(found, memory_mb, took)


async def _round(where: Place, found: Found) -> None:
    """Everybody once."""
    await _peer(where, RAISED, RAISED_LIMITS, found)
    progress(f"{REPLICAS} pods by a bare loop, then as a gang by the engine, {CREATES_AT_ONCE} at once")
    found.loops.append(await created(where.room(BARE)))
    found.starts.append(await start_gang(where, where.gang()))
    await where.empty()
    progress(f"bare loop {found.loops[-1]:.0f} a second; engine {found.starts[-1].told()}")


async def _peer(where: Place, name: str, flags: tuple[str, ...], found: Found) -> None:
    program = os.environ.get("KUBE_SCHEDULER", "")
    if not program:
        return
    progress(name)
    try:
        rate = await scheduled_by_kubernetes(where.room(PEERS), program, flags)
    except PeerFailedError as error:
        progress(f"left out: {error}")
        return
    found.peers.setdefault(name, []).append(rate)
    progress(f"{rate:.0f} pods a second from submission to all bound")


def _rows(found: Found, memory_mb: float, took: list[float]) -> list[Row]:
    create, whole, cpu_ms = (
        statistics.median(getattr(each, name) for each in found.starts) for name in ("create", "whole", "cpu_ms")
    )
    bare_create = statistics.median(found.loops)
    rows = [
        Row("pods created", create, "1/s", "higher", bare_create * 0.8, "bare create loop", bare_create),
        Row("processor time a pod", cpu_ms, "ms", "lower"),
    ]
    for name, rates in found.peers.items():
        rate = statistics.median(rates)
        goal = rate * GOALS[name] if name in GOALS else None
        rows.append(Row("submission to all bound", whole, "1/s", "higher", goal, name, rate))
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
