"""Fixtures that several kinds of tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import settings

from shared.bus import Bus
from tests.support.nats import NatsServer

# How long an example takes depends on what else the machine does, and says nothing about the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """One real nats-server for the whole session; tests that kill a server start their own."""
    server = NatsServer(tmp_path_factory.mktemp("nats"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def bus(nats_server: NatsServer) -> AsyncIterator[Bus]:
    """A connection to freshly provisioned streams."""
    await nats_server.wipe()
    bus = await nats_server.bus()
    yield bus
    await bus.close()
