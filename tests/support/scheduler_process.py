"""`python -m tests.support.scheduler_process`: a real scheduler as a process of its own, on a simulated cluster."""

from __future__ import annotations

import os
from pathlib import Path

from services.scheduler.bootstrap import SchedulerService
from services.scheduler.engines.open_engines import OpenEngines
from services.scheduler.settings import SchedulerSettings
from shared.bus import Bus
from shared.clock import SystemClock
from shared.service import main
from tests.support.simulated_engine import SimulatedEngine

DIRECTORY = "SIMULATED_CLUSTER"


async def bootstrap(settings: SchedulerSettings) -> SchedulerService:
    bus = await Bus.connect(settings.bus_options())
    engine = SimulatedEngine(Path(os.environ[DIRECTORY]))
    return SchedulerService(settings, bus, OpenEngines({"main": engine}, engine.close), SystemClock())


if __name__ == "__main__":
    main(SchedulerSettings, bootstrap)
