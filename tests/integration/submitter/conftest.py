"""A fresh submitter for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.bus import Bus
from tests.support.submitter import Submission, submitting


@pytest.fixture
async def submission(bus: Bus, tmp_path: Path) -> AsyncIterator[Submission]:
    async with submitting(bus, tmp_path / "home") as running:
        yield running
