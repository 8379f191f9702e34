"""What a service is to those who run it: a name, an HTTP application, and a life from `run` to `stop`.

The launcher runs five of them in one process, `python -m services.<name>` runs one; both through `run_services`. A
service does not look at signals or arguments: it is built by its `bootstrap`, works inside `run`, and ends when asked.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from typing import Protocol

from fastapi import FastAPI

from shared.http.origin import Origin
from shared.http.serve import HttpServer


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


async def run_services(services: Sequence[Service], server: HttpServer, stopping: asyncio.Event) -> None:
    """Run services and their server until `stopping` is set or one of them fails; HTTP ends first, streams with it."""
    server.mount(Origin([service.app for service in services]))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(service.run(), name=service.name) for service in services]
        tasks.append(group.create_task(server.run(), name="http"))
        group.create_task(_stop_all(services, server, stopping, tasks))


async def _stop_all(
    services: Sequence[Service], server: HttpServer, stopping: asyncio.Event, tasks: Sequence[asyncio.Task[None]]
) -> None:
    asked = asyncio.create_task(stopping.wait())
    await asyncio.wait([asked, *tasks], return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    await server.stop()
    for service in services:
        await service.stop()


def stop_on_signals(stopping: asyncio.Event) -> None:
    """Let SIGTERM and Ctrl-C set the event; for processes that are one service."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
