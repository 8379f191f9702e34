"""Platforms of the chaos suite: each test has its own and may do anything to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.storm import SLOW_FILES
from tests.support.local_engine import remove_memory_groups
from tests.support.platform import Platform

ARCHIVE_AFTER_S = 5


@pytest.fixture
def storm_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    """Two nodes, and a storage `scratch` on which jobs keep their accounts; jobs are archived in the middle of it."""
    monkeypatch.setenv("TRAINMASTER_ARCHIVE_AFTER_S", str(ARCHIVE_AFTER_S))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    platform = Platform(tmp_path / "home", nodes=2, scratch=scratch, python_path=(SLOW_FILES,))
    platform.up()
    platform.apply(
        {
            "apiVersion": "trainmaster/v1",
            "kind": "Storage",
            "metadata": {"name": "scratch"},
            "spec": {"uri": f"file://{scratch}", "access": {"public": True}},
        }
    )
    yield platform
    platform.cli("down", "--home", str(platform.home), "--replicas", check=False)
    remove_memory_groups(platform.home)
