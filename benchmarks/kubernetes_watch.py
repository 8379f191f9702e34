"""`python -m benchmarks.kubernetes_watch CLUSTER PODS`: a scheduler's engine and its view of gangs, in a process alone.

Prints its memory in MB once it knows that so many replicas run, and after that the time at which it hears of each end.
Everything that a scheduler loads is loaded.
"""

from __future__ import annotations

import asyncio
import sys
import time

import psutil
import structlog

import services.scheduler.bootstrap  # noqa: F401  # for what it takes
from benchmarks.kubernetes import Shipped
from services.scheduler.control.gangs import Gangs
from services.scheduler.control.troubles import Troubles
from services.scheduler.engines.kubernetes.engine import EngineSettings, KubernetesEngine
from services.scheduler.engines.kubernetes.objects import ObjectSettings
from shared.clock import SystemClock
from shared.kubernetes.access import connect
from shared.kubernetes.namespaces import Namespaces

MB = 1e6


def _say(value: float) -> None:
    print(value, flush=True)


async def watch(cluster: str, wanted: int) -> None:
    objects = ObjectSettings(namespaces=Namespaces(cluster), cluster=cluster)
    engine = await KubernetesEngine.open(EngineSettings(objects), await connect(), Shipped(), SystemClock())
    known = asyncio.Event()

    def changed(gang: str) -> None:
        replicas = gangs.view(gang).replicas or {}
        if known.is_set() and any(each.exit for each in replicas.values()):
            _say(time.time())

    gangs = Gangs(engine, SystemClock(), changed, Troubles())
    observing = asyncio.create_task(gangs.observe())
    await gangs.caught_up((cluster,))
    running = sum(1 for view in gangs.known().values() for each in (view.replicas or {}).values() if each.started_at)
    if running != wanted:
        raise SystemExit(f"{running} replicas run, and not {wanted}")
    _say(psutil.Process().memory_info().rss / MB)
    known.set()
    await observing


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(watch(sys.argv[1], int(sys.argv[2])))
