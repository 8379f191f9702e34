"""A fresh logs service for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.bus import Bus
from tests.support.logs import KeptLogs, keeping_logs


@pytest.fixture
async def kept(bus: Bus, tmp_path: Path) -> AsyncIterator[KeptLogs]:
    async with keeping_logs(bus, tmp_path / "home") as running:
        yield running
