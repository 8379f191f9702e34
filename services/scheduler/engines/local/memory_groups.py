"""A memory limit for each replica, where this process may make cgroups; the kernel then counts its kills.

Both versions of cgroups do: version 2, or the memory hierarchy of version 1 where version 2 has no memory controller.
Groups lie side by side below one of their own, `trainmaster` at the top of the hierarchy. A replica's group holds the
command and its descendants, not the runner, which is still there to tell what happened when the kernel has ended all of
them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shared.units import GIB

CGROUPS: Final = Path("/sys/fs/cgroup")
PARENT: Final = "trainmaster"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a version of cgroups names the files of a group."""

    limit: str
    events: str


VERSION_1: Final = Dialect("memory.limit_in_bytes", "memory.oom_control")
VERSION_2: Final = Dialect("memory.max", "memory.events")


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """Group of one replica."""

    path: Path
    dialect: Dialect

    @property
    def processes(self) -> Path:
        """Who writes 0 into it joins the group."""
        return self.path / "cgroup.procs"

    @property
    def limit(self) -> Path:
        """Takes the most bytes that the group may have."""
        return self.path / self.dialect.limit

    @property
    def events(self) -> Path:
        """Has the line `oom_kill N`."""
        return self.path / self.dialect.events


class MemoryGroups:
    """All groups below a parent."""

    def __init__(self, parent: Path, dialect: Dialect) -> None:
        self.parent = parent
        self._dialect = dialect

    def create(self, name: str, limit_bytes: int) -> MemoryGroup:
        """A group with this limit; the same one again for the same name."""
        group = self._group(name)
        group.path.mkdir(exist_ok=True)
        group.limit.write_text(str(limit_bytes))
        return group

    def find(self, name: str) -> MemoryGroup | None:
        """The group of this name, where there is one."""
        group = self._group(name)
        return group if group.path.is_dir() else None

    def remove(self, name: str) -> None:
        """Remove the group once its processes are gone."""
        with suppress(OSError):
            self._group(name).path.rmdir()

    def _group(self, name: str) -> MemoryGroup:
        return MemoryGroup(self.parent / name, self._dialect)


def find_memory_groups(root: Path = CGROUPS) -> MemoryGroups | None:
    """The groups of this machine; None where it has no memory controller, or we may not make groups in it."""
    try:
        groups = _open_version_2(root) or _open_version_1(root)
        if groups is not None:
            probe = f"probe-{os.getpid()}"
            groups.create(probe, limit_bytes=GIB)
            groups.remove(probe)
    except OSError:
        return None
    return groups


def _open_version_2(root: Path) -> MemoryGroups | None:
    controllers = root / "cgroup.controllers"
    if not controllers.exists() or "memory" not in controllers.read_text().split():
        return None
    parent = root / PARENT
    (root / "cgroup.subtree_control").write_text("+memory")
    parent.mkdir(exist_ok=True)
    (parent / "cgroup.subtree_control").write_text("+memory")
    return MemoryGroups(parent, VERSION_2)


def _open_version_1(root: Path) -> MemoryGroups | None:
    hierarchy = root / "memory"
    if not (hierarchy / VERSION_1.limit).exists():
        return None
    parent = hierarchy / PARENT
    parent.mkdir(exist_ok=True)
    return MemoryGroups(parent, VERSION_1)
