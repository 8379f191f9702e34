"""Services as processes and side by side in one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from services.diagnoser.bootstrap import bootstrap as diagnoser
from services.diagnoser.settings import DiagnoserSettings
from services.watchdog.bootstrap import bootstrap as watchdog
from shared.bus import Bus
from shared.http.serve import HttpServer
from shared.service import Service, run_services
from tests.support.nats import NatsServer, free_port
from tests.support.services import eventually
from tests.support.watchdog import watchdog_settings


@contextmanager
def process(module: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    environ = {"PATH": os.environ["PATH"], **{f"TRAINMASTER_{key.upper()}": value for key, value in variables.items()}}
    child = subprocess.Popen([sys.executable, "-m", module], env=environ, stderr=subprocess.PIPE)
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        assert child.stderr is not None
        child.stderr.close()


async def ready(port: int) -> dict[str, dict[str, object]]:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:

        async def look() -> dict[str, dict[str, object]] | None:
            try:
                response = await client.get("/readyz")
            except httpx.TransportError:
                return None
            checks: dict[str, dict[str, object]] = response.json()["checks"]
            return checks if response.status_code == 200 else None

        return await eventually(look, limit_s=30)


def diagnoser_settings(url: str, home: Path) -> DiagnoserSettings:
    return DiagnoserSettings.model_validate(
        watchdog_settings(url, home).model_dump(include={"nats_url", "home", "jwks_file"})
    )


def alone(home: Path) -> dict[str, str]:
    """Variables that a service with a home of its own needs."""
    return {"home": str(home), "jwks_file": str(watchdog_settings("nats://unused", home).jwks_file)}


@pytest.mark.parametrize("name", ["watchdog", "diagnoser"])
async def test_a_service_runs_alone_and_ends_well_on_sigterm(
    bus: Bus, nats_server: NatsServer, tmp_path: Path, name: str
) -> None:
    port = free_port()
    variables = alone(tmp_path)
    with process(f"services.{name}", nats_url=nats_server.url, nats_user="", port=str(port), **variables) as child:
        checks = await ready(port)
        assert f"{name}.jetstream" in checks
        child.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(child.wait, 20) == 0


async def test_a_service_that_waits_for_nats_ends_on_sigterm(tmp_path: Path) -> None:
    server, port = NatsServer(tmp_path), free_port()
    with process("services.watchdog", nats_url=server.url, nats_user="", port=str(port), **alone(tmp_path)) as child:
        assert child.stderr is not None
        assert b"Connect call failed" in await asyncio.to_thread(child.stderr.readline)
        child.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(child.wait, 20) == 0


def test_wrong_settings_end_the_process_with_every_variable_named() -> None:
    with process("services.watchdog", port="x", log_format="xml") as child:
        assert child.wait(90) == 1
        assert child.stderr is not None
        words = child.stderr.read().decode()
    assert "TRAINMASTER_PORT" in words
    assert "TRAINMASTER_LOG_FORMAT" in words
    assert "Traceback" not in words


async def test_several_services_share_one_process_and_one_address(
    bus: Bus, nats_server: NatsServer, tmp_path: Path
) -> None:
    services: list[Service] = [
        await watchdog(watchdog_settings(nats_server.url, tmp_path)),
        await diagnoser(diagnoser_settings(nats_server.url, tmp_path)),
    ]
    server, stopping = HttpServer("127.0.0.1", 0), asyncio.Event()
    task = asyncio.create_task(run_services(services, server, stopping))
    checks = await ready(server.port)
    assert {"watchdog.watchdog-attempts", "diagnoser.diagnoser-requests"} <= set(checks)
    stopping.set()
    await asyncio.wait_for(task, 45)


async def broken() -> None:
    raise RuntimeError("broken")


async def over() -> None:
    return


@pytest.mark.parametrize(("work", "reason"), [(broken, "broken"), (over, "failing ended without having been told to")])
async def test_one_service_that_fails_or_ends_by_itself_ends_them_all(
    bus: Bus, nats_server: NatsServer, tmp_path: Path, work: Callable[[], Awaitable[None]], reason: str
) -> None:
    healthy = await watchdog(watchdog_settings(nats_server.url, tmp_path))
    failing = await diagnoser(diagnoser_settings(nats_server.url, tmp_path))

    class Failing:
        name, app = "failing", failing.app

        async def run(self) -> None:
            await work()

        async def stop(self) -> None:
            await failing.bus.close()

    with pytest.raises(ExceptionGroup) as raised:
        await run_services([healthy, Failing()], HttpServer("127.0.0.1", 0), asyncio.Event())
    assert reason in str(raised.value.exceptions)
    assert healthy.bus.client.is_closed
