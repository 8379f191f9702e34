"""Opens the engine that the settings ask for, and says how to let go of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from services.scheduler.engines.kubernetes.engine import EngineSettings, KubernetesEngine
from services.scheduler.engines.kubernetes.shipments import AgentShipments
from services.scheduler.engines.local.engine import LocalEngine, LocalSettings
from services.scheduler.ports import Engine
from services.scheduler.settings import SchedulerSettings
from shared.bus import Bus
from shared.clock import Clock
from shared.kubernetes.access import connect


@dataclass(frozen=True, slots=True)
class OpenEngine:
    """An engine that is ready; replicas outlive `close`."""

    engine: Engine
    close: Callable[[], Awaitable[None]]


async def open_engine(settings: SchedulerSettings, bus: Bus, clock: Clock) -> OpenEngine:
    """The engine; raises UnavailableError where it cannot be reached."""
    if settings.engine == "kubernetes":
        return await _open_kubernetes(settings, bus, clock)
    local = await LocalEngine.open(_local(settings), clock)

    async def close() -> None:
        local.close()

    return OpenEngine(local, close)


async def _open_kubernetes(settings: SchedulerSettings, bus: Bus, clock: Clock) -> OpenEngine:
    chosen = EngineSettings(
        settings.objects(settings.cluster),
        settings.reading(),
        settings.kube_node_lost_after_s,
        sees_others=settings.kube_sees_others,
    )
    api = await connect(settings.kube_context)
    engine = await KubernetesEngine.open(chosen, api, AgentShipments(bus, settings.cluster), clock)
    return OpenEngine(engine, engine.close)


def _local(settings: SchedulerSettings) -> LocalSettings:
    """Start commands find the programs of the environment that the platform runs in, and those of its own PATH."""
    paths = [str(Path(sys.executable).parent), *os.environ.get("PATH", os.defpath).split(os.pathsep)]
    return LocalSettings(
        home=settings.home,
        split=settings.split,
        machine=settings.machine,
        path_variable=os.pathsep.join(dict.fromkeys(filter(None, paths))),
    )
