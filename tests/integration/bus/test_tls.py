"""Connections to a NATS that is encrypted: of the bus, of reactions, and of what sets up the streams."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from deploy.nats.__main__ import ProvisionSettings, provision_patiently
from shared import events as ev
from shared.bus import Bus, BusOptions, BusUnavailableError
from shared.bus.reactions import react, reactions_broker
from shared.bus.streams import DIAGNOSER_REQUESTS
from shared.errors import UnavailableError
from shared.ids import new_job_id
from shared.jobs import Recorded
from shared.settings import ServiceSettings
from shared.telemetry import Tracing
from shared.variables import SettingsError
from tests.support.certificates import Authority
from tests.support.guarded import PASSWORDS, GuardedServer
from tests.support.jobs import event
from tests.support.nats import free_port


@dataclass
class EncryptedServer(GuardedServer):
    """Asks its clients to encrypt."""

    authority: Authority | None = None

    def write_config(self, *, sync_always: bool = True) -> Path:
        assert self.authority is not None
        certificate, key = self.authority.sign_loopback()
        config = super().write_config(sync_always=sync_always)
        config.write_text(f'{config.read_text()}\ntls {{ cert_file: "{certificate}", key_file: "{key}" }}\n')
        return config

    def options(self, user: str) -> BusOptions:
        assert self.authority is not None
        return BusOptions(self.url, user, PASSWORDS[user], ca_file=self.authority.file, connect_timeout_s=2)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EncryptedServer]:
    store = tmp_path_factory.mktemp("encrypted")
    server = EncryptedServer(store, authority=Authority(store / "certificates"))
    server.start()
    yield server
    server.kill()


def provisioning(server: EncryptedServer, **fields: object) -> ProvisionSettings:
    options = server.options("platform")
    given = {"nats_url": options.url, "nats_password": SecretStr(options.password), "nats_ca_file": options.ca_file}
    return ProvisionSettings.model_validate({**given, **fields})


async def test_a_reaction_and_an_observation_go_over_an_encrypted_connection(server: EncryptedServer) -> None:
    await provision_patiently(provisioning(server))
    scheduler, options = await Bus.connect(server.options("scheduler")), server.options("diagnoser")
    seen: asyncio.Queue[Recorded] = asyncio.Queue()
    broker = reactions_broker(options)
    react(broker, DIAGNOSER_REQUESTS, seen.put, options=options, service="diagnoser", tracing=Tracing("diagnoser"))
    job = new_job_id()
    try:
        await broker.start()
        await scheduler.observe(event(ev.DiagnosisRequested(nodes=("n-1",), probes=()), job))
        async with asyncio.timeout(45):
            recorded = await seen.get()
    finally:
        await broker.stop()
        await scheduler.close()
    assert recorded.event.subject == job


async def test_a_server_of_another_authority_is_not_spoken_to(server: EncryptedServer, tmp_path: Path) -> None:
    wrong = replace(server.options("scheduler"), ca_file=Authority(tmp_path).file)
    with pytest.raises(BusUnavailableError, match="certificate verify failed"):
        await Bus.connect(wrong)


async def test_the_next_server_of_a_list_is_tried(server: EncryptedServer) -> None:
    options = server.options("scheduler")
    bus = await Bus.connect(replace(options, url=f"nats://127.0.0.1:{free_port()},{options.url}"))
    await bus.check()
    await bus.close()


async def test_provisioning_may_be_repeated_and_gives_up_in_time(server: EncryptedServer) -> None:
    await provision_patiently(provisioning(server))
    silent = provisioning(server, nats_url=f"nats://127.0.0.1:{free_port()}", provision_within_s=0.5)
    with pytest.raises(UnavailableError, match=r"NATS was not ready within 0\.5 s"):
        await provision_patiently(silent)


async def test_a_number_of_replicas_without_a_majority_is_told_in_one_sentence(server: EncryptedServer) -> None:
    variables = {"NATS_URL": server.url, "NATS_PASSWORD": PASSWORDS["platform"], "NATS_REPLICAS": "2"}
    environ = {"PATH": os.environ["PATH"], **{f"TRAINMASTER_{name}": value for name, value in variables.items()}}
    ended = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-m", "deploy.nats"], env=environ, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1
    assert "TRAINMASTER_NATS_REPLICAS" in ended.stderr
    assert "a majority of the servers must agree" in ended.stderr


def test_a_file_of_certificates_that_is_missing_is_named() -> None:
    settings = ServiceSettings.model_validate({"nats_ca_file": "/nowhere/ca.crt"})
    with pytest.raises(SettingsError, match=r"TRAINMASTER_NATS_CA_FILE: there is no file /nowhere/ca\.crt"):
        settings.bus_options()
