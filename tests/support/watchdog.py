"""A job whose replicas write to the log transit as the node agent would, for tests of the watchdog."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from services.watchdog.settings import WatchdogSettings
from shared import events as ev
from shared.auth.keys import SigningKey
from shared.auth.principal import Principal
from shared.auth.tokens import TokenIssuer
from shared.bus import Bus
from shared.clock import SystemClock
from shared.events import Payload
from shared.ids import UserId, new_job_id
from shared.jobs import Job
from shared.logs_wire import Chunk, FileRef, ReplicaRef, chunk_headers, chunk_subject
from tests.support import jobs
from tests.support.services import eventually

ADVANCED = {"maxRetries": 2, "on": {"failure": {"policy": "Advanced", "errorMessages": [["storage", "gave up"]]}}}


def watchdog_settings(url: str, home: Path) -> WatchdogSettings:
    """Settings of a watchdog whose state lies in a directory of the test."""
    key_file = home / "key.pem"
    if not key_file.exists():
        home.mkdir(parents=True, exist_ok=True)
        key = SigningKey.generate()
        key_file.write_text(key.pem())
        (home / "jwks.json").write_text(json.dumps(key.public().jwks()))
    fields = {"nats_url": url, "nats_user": "", "home": home, "jwks_file": home / "jwks.json"}
    return WatchdogSettings.model_validate(fields)


def token(home: Path, name: str = "ada", *, admin: bool = False) -> str:
    """A token of this user that a watchdog with this home takes."""
    issuer = TokenIssuer(SigningKey.load((home / "key.pem").read_text()), SystemClock())
    return issuer.issue(Principal(UserId(f"u-{name}"), name, admin)).token


class TestJob:
    """One job in the streams."""

    __test__ = False

    def __init__(self, bus: Bus, replicas: int = 1, owner: str = "u-ada", project: str = "default") -> None:
        self._bus = bus
        self._owner = owner
        self._project = project
        self._replicas = replicas
        self._sequence = 0
        self._told = 0
        self._written: dict[int, int] = {}
        self.id = new_job_id()

    async def tell(self, payload: Payload, at_s: float = 0, attempt: int = 1) -> None:
        """Put an event on record."""
        self._told += 1
        event = jobs.event(payload, self.id, attempt, at_s=at_s, part=str(self._told) if payload.KIND == "obs" else "")
        event = event.model_copy(update={"owner": self._owner, "project": self._project})
        if payload.KIND == "obs":
            await self._bus.observe(event)
        else:
            self._sequence = await self._bus.append(event, expected=self._sequence)

    async def run(self, at_s: float = 0, **spec: Any) -> TestJob:
        """Submit, place and start it."""
        made = jobs.submitted(replicas=self._replicas)
        await self.tell(made.model_copy(update={"spec": {**made.spec, **spec}}), at_s)
        await self.tell(jobs.placed(self._replicas), at_s)
        await self._change("started", at_s)
        await self.tell(ev.Started(), at_s)
        return self

    async def write(
        self,
        data: bytes,
        index: int = 0,
        *,
        end: bool = False,
        offset: int | None = None,
        at_ms: int | None = None,
        node: str = "n-1",
    ) -> None:
        """Ship bytes of a replica's log, which were there at this time by the clock of their node, or its end mark."""
        offset = self._written.get(index, 0) if offset is None else offset
        self._written[index] = max(self._written.get(index, 0), offset + len(data))
        file = FileRef(ReplicaRef(self.id, 1, "worker", index))
        if data:
            times = ((offset, at_ms),) if at_ms is not None else ()
            await self._publish(Chunk(file, offset, data, times=times, node=node))
        if end:
            await self._publish(Chunk(file, offset + len(data), end=offset + len(data)))

    async def fail(self, *codes: int, at_s: float = 1) -> None:
        """Every replica exits with its code, and the attempt has failed."""
        await self._change("exited", at_s, codes)
        first, code = next((index, code) for index, code in enumerate(codes) if code)
        ref = ev.ReplicaRef(role="worker", index=first)
        end = ev.AttemptEnded(reason=ev.EndReason.FAILED, first_failure=ref, exit=ev.ReplicaExit(code=code))
        await self.tell(end, at_s)

    async def now(self) -> Job:
        job = await self._bus.load_job(self.id)
        assert job is not None
        return job

    async def decision(self) -> ev.RetryDecided:
        async def look() -> ev.RetryDecided | None:
            return (await self.now()).attempt.decision

        return await eventually(look)

    async def incidents(self, count: int = 1) -> tuple[ev.IncidentRaised, ...]:
        """Incidents of the attempt once there are so many."""

        async def look() -> tuple[ev.IncidentRaised, ...] | None:
            found = (await self.now()).attempt.incidents
            return found if len(found) >= count else None

        return await eventually(look)

    async def _publish(self, chunk: Chunk) -> None:
        subject = chunk_subject(chunk.file.replica)
        await self._bus.js.publish(subject, chunk.data, headers=chunk_headers(chunk))

    async def _change(self, state: str, at_s: float, codes: tuple[int, ...] = ()) -> None:
        at = jobs.event(ev.Started(), self.id, at_s=at_s).time
        changes = tuple(
            ev.ReplicaChange.model_validate(
                {
                    "role": "worker",
                    "index": index,
                    "state": state,
                    "at": at,
                    "exit": ev.ReplicaExit(code=codes[index]) if codes else None,
                }
            )
            for index in range(self._replicas)
        )
        await self.tell(ev.ReplicasChanged(changes=changes), at_s)
