"""A scheduler over a real nats-server and the real local engine, and jobs submitted straight into the stream."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx

from services.scheduler.bootstrap import SchedulerService, bootstrap
from services.scheduler.settings import SchedulerSettings
from shared import events as ev
from shared.auth.keys import SigningKey
from shared.auth.principal import Principal
from shared.auth.tokens import TokenIssuer
from shared.bus import Bus, Transition
from shared.clock import SystemClock
from shared.events import Event
from shared.ids import UserId, new_job_id
from shared.jobs import Job, JobState
from shared.vault import Keyring
from tests.support.http import calling
from tests.support.jobs import role
from tests.support.nats import NatsServer
from tests.support.services import LIMIT_S, eventually, running


@dataclass
class Rig:
    """Whatever a test needs to run a scheduler once or several times over one home."""

    nats: NatsServer
    home: Path
    bus: Bus
    nodes: int = 1
    key: SigningKey = field(default_factory=SigningKey.generate)
    keyring: Keyring = field(default_factory=Keyring.generate)

    def settings(self, **changes) -> SchedulerSettings:
        jwks = self.home / "jwks.json"
        if not jwks.exists():
            self.home.mkdir(parents=True, exist_ok=True)
            jwks.write_text(json.dumps(self.key.public().jwks()))
            (self.home / "secret-keys.json").write_text(self.keyring.text())
        fields = {
            "nats_url": self.nats.url,
            "home": self.home,
            "nodes": self.nodes,
            "jwks_file": jwks,
            "secret_keys_file": self.home / "secret-keys.json",
            "machine": "test",
        }
        return SchedulerSettings.model_validate(fields | changes)

    async def scheduler(self, **changes) -> SchedulerService:
        return await bootstrap(self.settings(**changes))

    def token(self, name: str = "ada", *, admin: bool = False) -> str:
        issuer = TokenIssuer(self.key, SystemClock())
        return issuer.issue(Principal(UserId(f"u-{name}"), name, admin)).token

    async def submit(self, command: str = "true", replicas: int = 1, name: str = "demo", **spec) -> str:
        """A job of one role, or of the roles in `spec`; gives its id."""
        resolved_role = spec.pop("resolved", {})
        roles = spec.pop("roles", [{"name": "worker", "replicas": replicas, "command": command}])
        roles = [{"instanceType": "cpu-tiny", "replicas": 1, **one} for one in roles]
        found = {
            "mounts": spec.pop("resolved_mounts", ()),
            "code": spec.pop("resolved_code", None),
            "image": spec.pop("resolved_image", None),
        }
        tiny = {"cpu_millis": 100, "memory_bytes": 64 << 20, "pool_name": "public"} | resolved_role
        cluster = spec.pop("resolved_cluster", "main")
        job = new_job_id()
        fact = ev.Submitted(
            name=name,
            owner_name="ada",
            spec={"image": {"source": "address", "ref": "none"}, "roles": roles, **spec},
            resolved=ev.Resolved(cluster=cluster, roles=tuple(role(one["name"], **tiny) for one in roles), **found),
            priority=spec.get("priority", 5),
        )
        await self.append(fact, job, expected=0)
        return job

    async def append(self, payload: ev.Payload, job: str, *, expected: int | None = None, attempt: int = 1) -> int:
        if expected is None:
            found = await self.bus.load_job(job)
            assert found is not None
            expected = found.sequence
        event = Event.of(payload, job=job, attempt=attempt, time=datetime.now(UTC), owner="u-ada", project="default")
        return await self.bus.append_batch([Transition(event, expected)])

    async def job(self, job: str) -> Job:
        found = await self.bus.load_job(job)
        assert found is not None
        return found

    async def until(self, job: str, *states: JobState, limit_s: float = LIMIT_S) -> Job:
        """The job as soon as it is in one of these states."""

        async def look() -> Job | None:
            found = await self.job(job)
            return found if found.state in states else None

        return await eventually(look, limit_s)

    def log(self, job: str, role_name: str = "worker", index: int = 0, attempt: int = 1) -> str:
        return (self.home / "gangs" / f"{job}-{attempt}" / "replicas" / f"{role_name}-{index}" / "log").read_text()


@asynccontextmanager
async def users_of(rig: Rig) -> AsyncIterator[dict[str, httpx.AsyncClient]]:
    """Clients of a running scheduler: the admin root, ada, who owns what the rig submits, and bob, a stranger."""
    service = await rig.scheduler()
    async with (
        running(service),
        calling(service.app, rig.token("root", admin=True)) as root,
        calling(service.app, rig.token("ada")) as ada,
        calling(service.app, rig.token("bob")) as bob,
    ):

        async def ready() -> bool | None:
            return (await root.get("/readyz")).status_code == 200 or None

        await eventually(ready)
        yield {"root": root, "ada": ada, "bob": bob}
