"""The scheduler does all its work with the rights that its NATS user has on one machine."""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from deploy.local.home import NATS_USERS
from deploy.nats.config import nats_config
from shared import events as ev
from shared.bus import Bus, BusOptions
from shared.bus.blobs import Blobs
from shared.bus.provision import provision
from shared.bus.streams import CODE_BUCKET
from shared.jobs import JobState
from tests.support.archives import archive
from tests.support.nats import NatsServer
from tests.support.scheduling import Rig
from tests.support.services import running

PASSWORDS = {user: f"secret-of-{user}" for user in NATS_USERS}


class GuardedServer(NatsServer):
    def write_config(self, *, sync_always: bool = True) -> Path:
        config = self.store / "nats.conf"
        config.write_text(nats_config(self.port, self.store / "js", PASSWORDS))
        return config


async def test_a_job_with_uploaded_code_runs_from_placement_to_its_end(tmp_path: Path, rig: Rig):
    server = GuardedServer(tmp_path / "nats")
    server.start()
    bus = await Bus.connect(BusOptions(server.url, "platform", PASSWORDS["platform"]))
    await provision(bus.js)
    guarded = Rig(server, rig.home, bus)
    try:
        digest = await Blobs(bus.js, CODE_BUCKET).put(archive({"hello.sh": "echo hello"}))
        code = ev.ResolvedCode(kind="upload", digest=digest)
        password = SecretStr(PASSWORDS["scheduler"])
        async with running(await guarded.scheduler(nats_user="scheduler", nats_password=password)):
            job = await guarded.submit("sh /code/hello.sh", code={"upload": digest}, resolved_code=code)
            await guarded.until(job, JobState.SUCCEEDED)
    finally:
        await bus.close()
        server.kill()
    assert "Violation" not in (tmp_path / "nats" / "nats.log").read_text()
