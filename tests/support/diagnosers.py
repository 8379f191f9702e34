"""Diagnosers over a real JetStream, and jobs that wait for them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx

from services.diagnoser.bootstrap import bootstrap
from services.diagnoser.settings import DiagnoserSettings
from shared import events as ev
from shared.agent_wire import Measurement
from shared.auth.keys import SigningKey
from shared.auth.principal import Principal
from shared.auth.tokens import TokenIssuer
from shared.bus import Bus
from shared.catalog import Cluster
from shared.clock import SystemClock
from shared.ids import UserId, new_job_id
from shared.jobs import Attempt
from tests.support import jobs
from tests.support.nats import NatsServer
from tests.support.probes import measurement
from tests.support.services import eventually, running


def now_ms() -> int:
    return int(SystemClock().now().timestamp() * 1000)


def all_well(nodes: tuple[str, ...]) -> dict[str, Measurement]:
    return {node: measurement(unix_ms=now_ms()) for node in nodes}


async def diagnosing(bus: Bus, owner: str = "u-ada") -> str:
    """A job that waits for the diagnosis of its nodes."""
    job = new_job_id()
    submitted = jobs.event(jobs.submitted(), job).model_copy(update={"owner": owner})
    at = await bus.append(submitted, expected=0)
    placed = jobs.placed().model_copy(update={"diagnosing": True})
    await bus.append(jobs.event(placed, job), expected=at)
    return job


async def request(bus: Bus, job: str, machines: Mapping[str, str]) -> None:
    await bus.observe(jobs.event(ev.DiagnosisRequested(nodes=tuple(machines), machines=dict(machines)), job))


async def outcome(bus: Bus, job: str) -> ev.DiagnosisFinished:
    async def look() -> ev.DiagnosisFinished | None:
        return (await attempt(bus, job)).diagnosis

    return await eventually(look)


async def attempt(bus: Bus, job: str) -> Attempt:
    found = await bus.load_job(job)
    assert found is not None
    return found.attempt


def settings(server: NatsServer, **changes: object) -> DiagnoserSettings:
    home = server.store / "diagnoser"
    if not (home / "key.pem").exists():
        home.mkdir(parents=True, exist_ok=True)
        key = SigningKey.generate()
        (home / "key.pem").write_text(key.pem())
        (home / "jwks.json").write_text(json.dumps(key.public().jwks()))
    fields = {"nats_url": server.url, "nats_user": "", "home": home, "jwks_file": home / "jwks.json"}
    return DiagnoserSettings.model_validate({**fields, **changes})


@asynccontextmanager
async def calling(server: NatsServer, *, admin: bool = True, **changes: object) -> AsyncIterator[httpx.AsyncClient]:
    """The API of a running diagnoser."""
    service = await bootstrap(settings(server, **changes))
    key = SigningKey.load((server.store / "diagnoser" / "key.pem").read_text())
    token = TokenIssuer(key, SystemClock()).issue(Principal(UserId("u-ada"), "ada", admin)).token
    headers = {"Authorization": f"Bearer {token}"}
    transport = httpx.ASGITransport(service.app)
    async with running(service), httpx.AsyncClient(transport=transport, base_url="http://t", headers=headers) as client:

        async def look() -> bool | None:
            return True if (await client.get("/readyz")).status_code == 200 else None

        await eventually(look)
        yield client


async def reported(bus: Bus, node: str, machine: str, devices: tuple[str, ...] = ()) -> None:
    """The scheduler tells of a node."""
    report = ev.NodeReported(
        cluster="main",
        node=node,
        name=f"vm-{node}",
        cpu_millis=1000,
        memory_bytes=1,
        devices=devices,
        labels={"machine": machine},
    )
    subject = f"tm.node.{Cluster.id_of('main')}.{node}.reported"
    await bus.observe(jobs.event(report, node, attempt=0), subject=subject)
