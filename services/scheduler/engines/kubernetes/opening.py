"""Opens an engine for each cluster that the settings name."""

from __future__ import annotations

import asyncio

from services.scheduler.engines.kubernetes.engine import EngineSettings, KubernetesEngine
from services.scheduler.engines.kubernetes.shipments import AgentShipments
from services.scheduler.engines.open_engines import OpenEngines
from services.scheduler.settings import SchedulerSettings
from shared.bus import Bus
from shared.clock import Clock
from shared.errors import UnavailableError
from shared.kubernetes.access import connect


async def open_kubernetes(settings: SchedulerSettings, bus: Bus, clock: Clock) -> OpenEngines:
    """The engines; raises UnavailableError where there is no access to a cluster, reachable or not."""
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
