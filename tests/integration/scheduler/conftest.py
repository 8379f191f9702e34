"""A fresh home and fresh streams for every test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.bus import Bus
from tests.support.local_engine import kill_runners, remove_memory_groups
from tests.support.nats import NatsServer
from tests.support.scheduling import Rig


@pytest.fixture
async def rig(nats_server: NatsServer, bus: Bus) -> AsyncIterator[Rig]:
    home = Path(tempfile.mkdtemp(prefix=".tm-test-", dir=Path.home()))
    yield Rig(nats_server, home, bus)
    kill_runners(home)
    remove_memory_groups(home)
    shutil.rmtree(home, ignore_errors=True)
