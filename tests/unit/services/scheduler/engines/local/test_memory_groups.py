from __future__ import annotations

from pathlib import Path

import pytest

from services.scheduler.engines.local.memory_groups import find_memory_groups


@pytest.fixture
def cgroups(tmp_path: Path) -> Path:
    """A directory that looks as the kernel's does from outside."""
    (tmp_path / "cgroup.controllers").write_text("cpu io memory pids\n")
    return tmp_path


def test_a_group_has_its_limit_and_goes_when_it_is_empty(cgroups: Path):
    groups = find_memory_groups(cgroups)
    assert groups is not None

    group = groups.create("tj-a-1-worker-0", 1000)
    again = groups.create("tj-a-1-worker-0", 1000)

    assert group == again
    assert (group.path / "memory.max").read_text() == "1000"
    assert (cgroups / "cgroup.subtree_control").read_text() == "+memory"
    (group.path / "memory.max").unlink()  # the kernel's files go with their directory
    groups.remove("tj-a-1-worker-0")
    groups.remove("tj-a-1-worker-0")
    assert not group.path.exists()


def test_without_a_memory_controller_there_are_none(cgroups: Path):
    (cgroups / "cgroup.controllers").write_text("hugetlb\n")

    assert find_memory_groups(cgroups) is None


def test_without_version_two_there_are_none(tmp_path: Path):
    assert find_memory_groups(tmp_path) is None


def test_where_they_cannot_be_made_there_are_none(cgroups: Path):
    (cgroups / "trainmaster").touch()

    assert find_memory_groups(cgroups) is None
