"""The platform of the end-to-end tests: one for all that do not kill it, a fresh one for those that do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_engine import remove_memory_groups
from tests.support.platform import Platform, await_


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """A running platform with two nodes, each on a leaf of its own, and a storage `scratch`."""
    home = tmp_path_factory.mktemp("platform") / "home"
    yield from _running(Platform(home, nodes=2, leaves=2), tmp_path_factory.mktemp("scratch"))


@pytest.fixture
def own_platform(tmp_path: Path) -> Iterator[Platform]:
    """A platform that the test may kill."""
    (tmp_path / "scratch").mkdir()
    yield from _running(Platform(tmp_path / "home"), tmp_path / "scratch")


def _running(platform: Platform, scratch: Path) -> Iterator[Platform]:
    platform.up()
    platform.scratch = scratch
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
    await_("no replica is left", lambda: not platform.replica_processes())
    remove_memory_groups(platform.home)
