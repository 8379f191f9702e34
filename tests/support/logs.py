"""A logs service over a real nats-server, jobs whose logs it keeps, and a home with replicas for a real node agent."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from nats.aio.msg import Msg

from services.logs.bootstrap import LogsService, bootstrap
from services.logs.settings import LogsSettings
from shared import events as ev
from shared.auth.keys import SigningKey
from shared.auth.principal import Principal
from shared.auth.tokens import TokenIssuer
from shared.bus import Bus, Claim, Transition
from shared.clock import SystemClock, rfc3339
from shared.events import Event, NameClaimed, Payload
from shared.http.serve import HttpServer
from shared.ids import UserId, new_job_id
from shared.logs_wire import KEPT_SUBJECTS, Chunk, FileRef, Kept, ReplicaRef, chunk_headers, chunk_subject, decode_kept
from tests.support.jobs import placed, submitted
from tests.support.nats import registered
from tests.support.services import eventually

ADA = Principal(UserId("u-ada"), "ada")


@dataclass
class KeptLogs:
    """A running logs service with an HTTP port."""

    service: LogsService
    bus: Bus
    issuer: TokenIssuer
    url: str
    clients: list[httpx.AsyncClient] = field(default_factory=list)

    def client(self, principal: Principal = ADA) -> httpx.AsyncClient:
        token = self.issuer.issue(principal).token
        client = httpx.AsyncClient(base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=30)
        self.clients.append(client)
        return client

    async def sizes(self, job: str, principal: Principal = ADA) -> dict[tuple[int, str, int], tuple[int, bool]]:
        """Size and end of each of the job's logs."""
        answer = await self.client(principal).get(f"/v1/logs/{job}")
        assert answer.status_code == 200, answer.text
        replicas = answer.json()["replicas"]
        return {(each["attempt"], each["role"], each["index"]): (each["size"], each["ended"]) for each in replicas}

    async def until_ended(
        self, job: str, replicas: int = 1, limit_s: float = 30, *, principal: Principal = ADA
    ) -> None:
        """Return when so many logs of the job have their end marks."""

        async def look() -> bool | None:
            ended = [end for _, end in (await self.sizes(job, principal)).values()]
            return True if len(ended) >= replicas and all(ended) else None

        await eventually(look, limit_s)

    async def until_sized(self, job: str, size: int, limit_s: float = 30) -> None:
        """Return when the log of the job's first replica has so many bytes."""

        async def look() -> bool | None:
            return True if (await self.sizes(job)).get((1, "worker", 0), (0, False))[0] == size else None

        await eventually(look, limit_s)

    async def raw(self, job: str, attempt: int = 1, role: str = "worker", index: int = 0, **query: Any) -> bytes:
        """A log byte for byte."""
        params = {"raw": "true", **query}
        answer = await self.client().get(f"/v1/logs/{job}/{attempt}/{role}/{index}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.content


def log_settings(home: Path, url: str) -> LogsSettings:
    """Settings of a service whose state lies in a directory of the test."""
    key_file = home / "key.pem"
    if not key_file.exists():
        home.mkdir(parents=True, exist_ok=True)
        key = SigningKey.generate()
        key_file.write_text(key.pem())
        (home / "jwks.json").write_text(json.dumps(key.public().jwks()))
    return LogsSettings.model_validate({"home": home, "nats_url": url, "jwks_file": home / "jwks.json"})


@asynccontextmanager
async def keeping_logs(bus: Bus, home: Path, **chosen: Any) -> AsyncIterator[KeptLogs]:
    """A logs service that works inside the block; `chosen` are settings of it."""
    settings = log_settings(home, bus.options.url).model_copy(update=chosen)
    service = await bootstrap(settings)
    server = HttpServer("127.0.0.1", 0)
    server.mount(service.app)
    issuer = TokenIssuer(SigningKey.load((home / "key.pem").read_text()), SystemClock())
    kept = KeptLogs(service, bus, issuer, f"http://127.0.0.1:{server.port}")
    works = [asyncio.create_task(service.run()), asyncio.create_task(server.run())]
    try:
        await eventually(lambda: _ready(kept))
        yield kept
    finally:
        for client in kept.clients:
            await client.aclose()
        await server.stop()
        await service.stop()
        await asyncio.wait_for(asyncio.gather(*works), 45)


async def _ready(kept: KeptLogs) -> bool | None:
    with contextlib.suppress(httpx.TransportError):
        return True if (await kept.client().get("/readyz")).status_code == 200 else None
    return None


async def submit(
    bus: Bus,
    name: str = "demo",
    replicas: int = 1,
    owner: str = ADA.user_id,
    project: str = "default",
    mounts: tuple[ev.ResolvedMount, ...] = (),
) -> str:
    """A job that is placed; gives its id."""
    job = new_job_id()
    payload = submitted(name, replicas)
    payload = payload.model_copy(update={"resolved": payload.resolved.model_copy(update={"mounts": mounts})})
    first = _event(payload, job, owner, project)
    claim = _event(NameClaimed(name=name), job, owner, project)
    sequence = await bus.append_batch([Claim(claim, owner, name, 0), Transition(first, 0)])
    await bus.append(_event(placed(replicas), job, owner, project), expected=sequence)
    return job


async def tell(bus: Bus, job: str, *payloads: Payload, attempt: int = 1) -> None:
    """Append state events, publish observations."""
    for payload in payloads:
        loaded = await bus.load_job(job)
        assert loaded is not None
        event = _event(payload, job, loaded.owner, loaded.project, attempt)
        if payload.KIND == "obs":
            await bus.observe(event)
        else:
            await bus.append(event, expected=loaded.sequence)


def _event(payload: Payload, job: str, owner: str, project: str, attempt: int = 1) -> Event:
    part = str(datetime.now(UTC).timestamp()) if payload.KIND == "obs" else ""
    now = SystemClock().now()
    return Event.of(payload, job=job, attempt=attempt, time=now, owner=owner, project=project, part=part)


async def start_and_end(bus: Bus, job: str, replicas: int = 1) -> None:
    """Tell that all replicas ran and succeeded, and the job with them."""
    now = SystemClock().now()
    started = [ev.ReplicaChange(role="worker", index=index, state="started", at=now) for index in range(replicas)]
    await tell(bus, job, ev.ReplicasChanged(changes=tuple(started)), ev.Started())
    await tell(bus, job, ev.AttemptEnded(reason="completed"), ev.Succeeded())


async def publish(bus: Bus, *chunks: Chunk) -> None:
    """Put chunks into the log transit, as an agent would."""
    for chunk in chunks:
        await bus.js.publish(chunk_subject(chunk.file.replica), chunk.data, headers=chunk_headers(chunk))


def log_of(job: str, index: int = 0, attempt: int = 1) -> FileRef:
    return FileRef(ReplicaRef(job, attempt, "worker", index))


@dataclass
class Running:
    """A replica's directory as the engine and the runner would have it."""

    path: Path
    lock_fd: int

    def write(self, data: bytes) -> None:
        with (self.path / "log").open("ab") as log:
            log.write(data)

    def end(self) -> None:
        """The runner's last acts."""
        (self.path / "exit.json").write_text('{"wait_status": 0}')
        os.close(self.lock_fd)

    @property
    def shipped(self) -> dict[str, int] | None:
        path = self.path / "shipped.json"
        return json.loads(path.read_text()) if path.exists() else None

    async def until_shipped(self, limit_s: float = 30) -> int:
        async def look() -> dict[str, int] | None:
            return self.shipped

        return (await eventually(look, limit_s))["bytes"]


def start_replica(home: Path, job: str, index: int = 0, *, tensorboard: Path | None = None) -> Running:
    """A replica that has just been started."""
    path = home / "gangs" / f"{job}-1" / "replicas" / f"worker-{index}"
    path.mkdir(parents=True)
    for name in ("log", "lock", "exit.json"):
        (path / name).touch()
    lock_fd = os.open(path / "lock", os.O_RDWR)
    fcntl.flock(lock_fd, fcntl.LOCK_EX)
    manifest = {
        "job": job,
        "attempt": 1,
        "role": "worker",
        "index": index,
        "node": "n-1",
        "started_at": rfc3339(datetime.now(UTC)),
        "log": "log",
        "tensorboard": str(tensorboard) if tensorboard else None,
    }
    partial = path / ".ship"
    partial.write_text(json.dumps(manifest))
    partial.rename(path / "ship.json")
    return Running(path, lock_fd)


async def announcements(bus: Bus) -> list[Kept]:
    """What services announce as kept from now on."""
    heard: list[Kept] = []

    async def hear(message: Msg) -> None:
        heard.append(decode_kept(message.subject, message.data))

    await bus.client.subscribe(KEPT_SUBJECTS, cb=hear)
    await registered(bus.client)
    return heard


class AgentProcess:
    """A real node agent that may be killed and started again."""

    def __init__(self, home: Path, nats_url: str, variables: Mapping[str, str] | None = None) -> None:
        self._home = home
        self._nats_url = nats_url
        self._variables = dict(variables or {})
        self.process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    async def start(self) -> None:
        own = {"TRAINMASTER_HOME": str(self._home), "TRAINMASTER_NATS_URL": self._nats_url}
        environment = {**os.environ, **own, **self._variables}
        with (self._home / "agent.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "services.agent", env=environment, stdout=log, stderr=log
            )

    async def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> int:
        assert self.process is not None
        if self.process.returncode is None:
            self.process.terminate()
        return await asyncio.wait_for(self.process.wait(), 45)


@asynccontextmanager
async def agent_running(home: Path, nats_url: str) -> AsyncIterator[AgentProcess]:
    """An agent that works inside the block."""
    home.mkdir(parents=True, exist_ok=True)
    agent = AgentProcess(home, nats_url)
    await agent.start()
    try:
        yield agent
    finally:
        await agent.stop()
