from __future__ import annotations

from pathlib import Path

import pytest

from services.scheduler.engines.local.memory_groups import find_memory_groups


@pytest.fixture
def hierarchy(tmp_path: Path) -> Path:
    """The same of version 1, as far as memory goes."""
    memory = tmp_path / "memory"
    memory.mkdir()
    (memory / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    return memory


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


def test_version_one_does_where_version_two_has_no_memory_controller(hierarchy: Path, tmp_path: Path):
    (tmp_path / "cgroup.controllers").write_text("hugetlb\n")
    groups = find_memory_groups(tmp_path)
    assert groups is not None

    group = groups.create("tj-a-1-worker-0", 1000)

    assert group.path == hierarchy / "trainmaster" / "tj-a-1-worker-0"
    assert (group.path / "memory.limit_in_bytes").read_text() == "1000"
    assert group.events.name == "memory.oom_control"


def test_version_two_goes_first(hierarchy: Path, cgroups: Path):
    assert find_memory_groups(cgroups) is not None
    assert not (hierarchy / "trainmaster").exists()


def test_without_cgroups_there_are_none(tmp_path: Path):
    assert find_memory_groups(tmp_path) is None


def test_where_they_cannot_be_made_there_are_none(cgroups: Path):
    (cgroups / "trainmaster").touch()

    assert find_memory_groups(cgroups) is None


def test_where_they_cannot_be_made_in_version_one_there_are_none(hierarchy: Path, tmp_path: Path):
    (hierarchy / "trainmaster").touch()

    assert find_memory_groups(tmp_path) is None
