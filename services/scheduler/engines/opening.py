"""Opens the engines that the settings ask for, one for each cluster, and says how to let go of them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from services.scheduler.engines.kubernetes.engine import EngineSettings, KubernetesEngine
from services.scheduler.engines.kubernetes.shipments import AgentShipments
from services.scheduler.engines.local.engine import LocalEngine, LocalSettings
from services.scheduler.ports.engine import Engine
from services.scheduler.settings import SchedulerSettings
from shared.bus import Bus
from shared.clock import Clock
from shared.errors import UnavailableError
from shared.kubernetes.access import connect


@dataclass(frozen=True, slots=True)
class OpenEngines:
    """Engines that are ready, by the names of their clusters, the first one first; replicas outlive `close`."""

    engines: Mapping[str, Engine]
    close: Callable[[], Awaitable[None]]


async def open_engines(settings: SchedulerSettings, bus: Bus, clock: Clock) -> OpenEngines:
    """The engines; raises UnavailableError where there is no access to a cluster, reachable or not."""
    if settings.engine == "kubernetes":
        return await _open_kubernetes(settings, bus, clock)
    local = await LocalEngine.open(_local(settings), clock)

    async def close() -> None:
        local.close()

    return OpenEngines({settings.cluster: local}, close)


async def _open_kubernetes(settings: SchedulerSettings, bus: Bus, clock: Clock) -> OpenEngines:
    engines: dict[str, KubernetesEngine] = {}

    async def close() -> None:
        await asyncio.gather(*(engine.close() for engine in engines.values()))

    try:
        for cluster, context in settings.contexts(settings.cluster).items():
            api = await connect(context)
            chosen = _kubernetes(settings, cluster)
            engines[cluster] = await KubernetesEngine.open(chosen, api, AgentShipments(bus, cluster), clock)
    except UnavailableError:
        await close()
        raise
    return OpenEngines(engines, close)


def _kubernetes(settings: SchedulerSettings, cluster: str) -> EngineSettings:
    return EngineSettings(
        settings.objects(cluster),
        settings.reading(),
        settings.kube_node_lost_after_s,
        sees_others=settings.kube_sees_others,
    )


def _local(settings: SchedulerSettings) -> LocalSettings:
    """Start commands find the programs of the environment that the platform runs in, and those of its own PATH."""
    paths = [str(Path(sys.executable).parent), *os.environ.get("PATH", os.defpath).split(os.pathsep)]
    return LocalSettings(
        home=settings.home,
        split=settings.split,
        machine=settings.machine,
        path_variable=os.pathsep.join(dict.fromkeys(filter(None, paths))),
    )
