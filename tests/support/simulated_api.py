"""A scheduler in the test's own loop on a simulated cluster, and its HTTP API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx

from services.scheduler.bootstrap import SchedulerService
from services.scheduler.engines.open_engines import OpenEngines
from shared.clock import SystemClock
from tests.support.http import calling
from tests.support.scheduling import Rig
from tests.support.services import eventually, running
from tests.support.simulated_engine import SimulatedEngine


@asynccontextmanager
async def api(
    rig: Rig, engine: SimulatedEngine, others: Mapping[str, SimulatedEngine] | None = None, **settings
) -> AsyncIterator[dict[str, httpx.AsyncClient]]:
    """A scheduler on simulated clusters that leads, and clients of it: an admin, and two users."""
    bus = await rig.nats.bus("scheduler")
    service = SchedulerService(
        rig.settings(**settings), bus, OpenEngines({"main": engine, **(others or {})}, engine.close), SystemClock()
    )
    async with (
        running(service),
        calling(service.app, rig.token("root", admin=True)) as root,
        calling(service.app, rig.token("ada")) as ada,
        calling(service.app, rig.token("bob")) as bob,
    ):

        async def leads() -> bool | None:
            return (await root.get("/metrics")).text.count("trainmaster_scheduler_leader 1.0") > 0 or None

        await eventually(leads)
        yield {"root": root, "ada": ada, "bob": bob}
