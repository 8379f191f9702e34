"""What a service is to those who run it: a name, an HTTP application, and a life from `run` to `stop`.

The launcher runs five of them in one process, `python -m services.<name>` runs one; both through `run_services`. A
service does not look at signals or arguments: it is built by its `bootstrap`, works inside `run`, and ends when asked.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

import structlog
from fastapi import FastAPI

from shared.bus import Bus, BusUnavailableError
from shared.bus.provision import check_provisioned
from shared.errors import TrainmasterError, UnavailableError
from shared.garbage import collect_rarely
from shared.http.origin import Origin
from shared.http.serve import HttpServer
from shared.settings import ServiceSettings, read_settings, variables
from shared.telemetry import configure_logging
from shared.variables import refuse_misspelt

_RETRY_S: Final = 1.0


class Service(Protocol):
    """One of the platform's services, wired and ready to run."""

    @property
    def name(self) -> str:
        """Its folder under `services/`, such as `submitter`."""
        ...

    @property
    def app(self) -> FastAPI:
        """Its HTTP application, made by `shared.http.app.create_app`; readiness checks are in there."""
        ...

    async def run(self) -> None:
        """Work until `stop` is called; returns when everything that was in hand is finished and closed."""
        ...

    async def stop(self) -> None:
        """Ask `run` to end; returns at once and may be called twice."""
        ...


Settings = TypeVar("Settings", bound=ServiceSettings)
Bootstrap = Callable[[Settings], Awaitable[Service]]


async def run_services(services: Sequence[Service], server: HttpServer, stopping: asyncio.Event) -> None:
    """Run services and their server until `stopping` is set or one of them ends; HTTP ends first, streams with it.

    Raises an ExceptionGroup of what failed, after all the others have ended in their own time. One that ends by itself
    has failed, too, since nobody would know why the rest ended.
    """
    server.mount(Origin([service.app for service in services]))
    http = asyncio.create_task(server.run(), name="http")
    tasks = [asyncio.create_task(service.run(), name=service.name) for service in services]
    asked = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait([asked, http, *tasks], return_when=asyncio.FIRST_COMPLETED)
        unasked = [] if stopping.is_set() else [task.get_name() for task in (http, *tasks) if task.done()]
    finally:
        asked.cancel()
        await server.stop()
        await asyncio.wait([http])
        for service in services:
            await service.stop()
        ends = await asyncio.gather(http, *tasks, return_exceptions=True)
    failures = [end for end in ends if isinstance(end, Exception)]
    if unasked and not failures:
        failures = [RuntimeError(f"{', '.join(unasked)} ended without having been told to")]
    if failures:
        raise ExceptionGroup("a service failed", failures)


def main(settings_type: type[Settings], bootstrap: Bootstrap[Settings]) -> None:
    """A process that is one service: settings from the environment, an end by SIGTERM or Ctrl-C."""
    try:
        refuse_misspelt(variables(settings_type), os.environ)
        settings = read_settings(settings_type, os.environ)
        configure_logging(settings.log_format, settings.log_level)
        collect_rarely()
        asyncio.run(_run_alone(settings, bootstrap))
    except TrainmasterError as error:
        sys.exit(f"error: {error.message}")


async def _run_alone(settings: Settings, bootstrap: Bootstrap[Settings]) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    server = HttpServer(settings.host, settings.port)
    wiring = asyncio.create_task(_patiently(settings, bootstrap))
    asked = asyncio.create_task(stopping.wait())
    await asyncio.wait([wiring, asked], return_when=asyncio.FIRST_COMPLETED)
    if not wiring.done():
        wiring.cancel()
        await asyncio.gather(wiring, return_exceptions=True)
        await server.stop()
        return
    service = wiring.result()
    structlog.get_logger(service=service.name).info("service_started", host=settings.host, port=server.port)
    await run_services([service], server, stopping)


async def _await_streams(settings: ServiceSettings) -> None:
    """Raise BusUnavailableError where another process has yet to set up what services work on."""
    bus = await Bus.connect(settings.bus_options())
    try:
        await check_provisioned(bus.js)
    finally:
        await bus.close()


async def _patiently(settings: Settings, bootstrap: Bootstrap[Settings]) -> Service:
    """The service, as soon as the parts that it needs are there."""
    while True:
        try:
            await _await_streams(settings)
            return await bootstrap(settings)
        except (UnavailableError, BusUnavailableError) as error:
            structlog.get_logger().warning("service_waits", reason=error.message)
        await asyncio.sleep(_RETRY_S)
