"""How fast gangs start on Kubernetes, and what watching them costs; against the API server that `KUBECONFIG` names.

What the engine reaches stands beside what a bare loop of requests gets from the same server in the same run, with as
many at once. Where `KUBE_SCHEDULER` names the program kube-scheduler, that is measured too, with its default settings
and with its limits raised, on the cluster while it is empty; no other one may be running. The nodes are objects alone:
nothing runs.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from dataclasses import dataclass
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

WATCHED_GANGS = 5
CHANGES = 20
RAISED_LIMITS = ("--kube-api-qps=2000", "--kube-api-burst=4000")
RAISED_ROUNDS = 3
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


async def measure() -> list[Row]:
    progress(
        f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, shared with the API server if it is here"
    )
    program = os.environ.get("KUBE_SCHEDULER", "")
    async with place() as where:
        peers = await _peers(where.room(PEERS), program) if program else {}
        both = await created_and_bound(where.room(BARE))
        gangs, loops, starts = [], [], []
        for _ in range(WATCHED_GANGS):
            progress(f"{REPLICAS} pods by a bare loop, then as a gang by the engine, {CREATES_AT_ONCE} at once")
            loops.append(await created(where.room(BARE)))
            gangs.append(where.gang())
            starts.append(await start_gang(where, gangs[-1]))
            progress(f"bare loop {loops[-1]:.0f} a second; engine {starts[-1].told()}")
        progress(f"{len(gangs) * REPLICAS} pods that run are watched")
        for gang in gangs:
            await _run(where, gang)
        memory_mb, took = await watching(where, gangs)
    return _rows(loops, starts, {**peers, CREATE_THEN_BIND: both}, memory_mb, took)


async def _peers(where: Place, program: str) -> dict[str, float]:
    found = {}
    for name, flags, rounds in ((DEFAULT, (), 1), (RAISED, RAISED_LIMITS, RAISED_ROUNDS)):
        progress(name)
        try:
            rates = [await scheduled_by_kubernetes(where, program, flags) for _ in range(rounds)]
        except PeerFailedError as error:
            progress(f"left out: {error}")
            continue
        found[name] = statistics.median(rates)
        progress(f"{', '.join(f'{rate:.0f}' for rate in rates)} pods a second from submission to all bound")
    return found


def _rows(
    loops: list[float], starts: list[Start], peers: dict[str, float], memory_mb: float, took: list[float]
) -> list[Row]:
    create, whole, cpu_ms = (
        statistics.median(getattr(each, name) for each in starts) for name in ("create", "whole", "cpu_ms")
    )
    bare_create = statistics.median(loops)
    rows = [
        Row("pods created", create, "1/s", "higher", bare_create * 0.8, "bare create loop", bare_create),
        Row("processor time a pod", cpu_ms, "ms", "lower"),
    ]
    for name, rate in peers.items():
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
