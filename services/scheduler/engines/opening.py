"""Opens the engines that the settings ask for, one for each cluster, and says how to let go of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from services.scheduler.engines.local.engine import LocalEngine, LocalSettings
from services.scheduler.engines.open_engines import OpenEngines
from services.scheduler.settings import SchedulerSettings
from shared.bus import Bus
from shared.clock import Clock


async def open_engines(settings: SchedulerSettings, bus: Bus, clock: Clock) -> OpenEngines:
    """The engines; raises UnavailableError where there is no access to a cluster, reachable or not."""
    if settings.engine == "kubernetes":
        # Its client takes a fifth of a second to import, which one machine need not pay.
        from services.scheduler.engines.kubernetes.opening import open_kubernetes  # noqa: PLC0415

        return await open_kubernetes(settings, bus, clock)
    local = await LocalEngine.open(_local(settings), clock)

    async def close() -> None:
        local.close()

    return OpenEngines({settings.cluster: local}, close)


def _local(settings: SchedulerSettings) -> LocalSettings:
    """Start commands find the programs of the environment that the platform runs in, and those of its own PATH."""
    paths = [str(Path(sys.executable).parent), *os.environ.get("PATH", os.defpath).split(os.pathsep)]
    return LocalSettings(
        home=settings.home,
        split=settings.split,
        machine=settings.machine,
        path_variable=os.pathsep.join(dict.fromkeys(filter(None, paths))),
    )
