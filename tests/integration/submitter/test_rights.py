"""The submitter does all of its work with the rights that its own NATS user has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from deploy.local.home import NATS_USERS
from deploy.nats.config import nats_config
from shared import events as ev
from shared.bus import Bus, BusOptions
from shared.bus.provision import provision
from shared.catalog import Dataset
from tests.support.catalog import dataset
from tests.support.nats import NatsServer
from tests.support.services import eventually
from tests.support.specs import changed, small_job_document
from tests.support.submitter import ADMIN_PASSWORD, Submission, submitting

PASSWORDS = {user: f"secret-of-{user}" for user in NATS_USERS}


class GuardedServer(NatsServer):
    """A server with the users and rights of the one-machine platform."""

    def write_config(self, *, sync_always: bool = True) -> Path:
        config = self.store / "nats.conf"
        config.write_text(nats_config(self.port, self.store / "js", PASSWORDS))
        return config


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[Bus]:
    server = GuardedServer(tmp_path / "nats")
    server.start()
    bus = await Bus.connect(BusOptions(server.url, "platform", PASSWORDS["platform"]))
    await provision(bus.js)
    yield bus
    await bus.close()
    server.kill()


async def test_the_submitters_own_rights_are_enough(platform: Bus, tmp_path: Path) -> None:
    password = SecretStr(PASSWORDS["submitter"])
    async with submitting(platform, tmp_path / "home", nats_password=password) as submission:
        await _use_everything(submission)


async def _use_everything(submission: Submission) -> None:
    ann, root = submission.client("ann"), submission.client("admin", admin=True)
    login = {"username": "admin", "password": ADMIN_PASSWORD}
    assert (await root.post("/v1/auth/login", json=login)).status_code == 200
    user = {"apiVersion": "trainmaster/v1", "kind": "User", "metadata": {"name": "carl"}}
    made = await root.put("/v1/auth/users/carl", json=user | {"spec": {"password": "a long password"}})
    assert made.status_code == 201
    assert (await root.put("/v1/auth/users/carl", json=user | {"spec": {"disabled": True}})).status_code == 200
    assert (await root.delete("/v1/auth/users/carl")).status_code == 204

    code = {"apiVersion": "trainmaster/v1", "kind": "CodeSet", "metadata": {"name": "c"}}
    kept = await ann.put("/v1/assets/code-sets/c", json=code | {"spec": {"inline": {"a.py": "x"}}})
    assert kept.status_code == 201, kept.text
    document = changed(small_job_document(), "/spec/code", {"source": "c"})
    job = (await ann.post("/v1/jobs", json=document)).json()["metadata"]["id"]
    assert (await ann.post("/v1/jobs/echo/stop")).status_code == 200
    await submission.tell(job, ev.AttemptEnded(reason=ev.EndReason.STOPPED), ev.Stopped())
    assert (await ann.delete("/v1/jobs/echo")).status_code == 204
    await submission.keep(dataset("announced"))

    async def announced() -> Dataset | None:
        return submission.service.catalog.view.get(Dataset, "announced")

    await eventually(announced)
    ready = await ann.get("/readyz")
    assert ready.json()["ready"], ready.text
