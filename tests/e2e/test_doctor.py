"""The doctor beside a running platform."""

from __future__ import annotations

import asyncio
import json

import pytest
from click.testing import CliRunner

from deploy.local.doctor.command import doctor
from deploy.local.doctor.health import platform as health
from deploy.local.home import Home
from shared.bus import Bus, BusOptions
from shared.bus.streams import SCHEDULER_USAGE, Reaction
from tests.support.platform import Platform

pytestmark = pytest.mark.e2e


def test_a_running_platform_is_ready_and_has_its_port(platform: Platform) -> None:
    arguments = ["--home", str(platform.home), "--port", str(platform.port), "-o", "json"]
    done = CliRunner().invoke(doctor, arguments, standalone_mode=False)
    found = {one["check"]: one for one in json.loads(done.output)["findings"]}
    assert found["platform"]["verdict"] == found["port"]["verdict"] == "ok"
    assert "is ready" in found["platform"]["message"]


async def remove_consumer(home: Home, consumer: Reaction) -> None:
    passwords = json.loads(home.secrets.read_text())["nats_passwords"]
    url = json.loads(home.state.read_text())["nats_url"]
    bus = await Bus.connect(BusOptions(url, "platform", passwords["platform"]))
    await bus.js.delete_consumer(consumer.stream, consumer.durable)
    await bus.close()


def test_a_platform_whose_consumer_is_gone_is_not_ready(own_platform: Platform) -> None:
    asyncio.run(remove_consumer(Home(own_platform.home), SCHEDULER_USAGE))
    found = health(Home(own_platform.home))
    assert found.verdict == "fail"
    assert "scheduler-usage" in found.message
