"""What keeps the platform from starting before anything of it is there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from deploy.local.home import Home
from deploy.local.launcher import LaunchOptions, run_platform
from shared.variables import SettingsError


async def test_a_misspelt_variable_is_refused_before_the_home_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRAINMASTER_FILE_PREFIXS", "/data")
    home = Home(tmp_path / "home")
    with pytest.raises(SettingsError, match="give TRAINMASTER_FILE_PREFIXES"):
        await run_platform(LaunchOptions(home), asyncio.Event(), lambda _running: None)
    assert not home.root.exists()
