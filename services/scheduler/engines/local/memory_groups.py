"""A memory limit for each replica, where this process may make cgroups (version 2); the kernel then counts its kills.

Groups lie side by side below one of their own, `/sys/fs/cgroup/trainmaster`. A replica's group holds the command and
its descendants, not the runner, which is still there to tell what happened when the kernel has ended all of them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CGROUPS: Final = Path("/sys/fs/cgroup")
PARENT: Final = "trainmaster"


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """Group of one replica."""

    path: Path

    @property
    def processes(self) -> Path:
        """Who writes 0 into it joins the group."""
        return self.path / "cgroup.procs"

    @property
    def events(self) -> Path:
        """Has the line `oom_kill N`."""
        return self.path / "memory.events"


class MemoryGroups:
    """All groups of this platform."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent

    def create(self, name: str, limit_bytes: int) -> MemoryGroup:
        """A group with this limit; the same one again for the same name."""
        group = MemoryGroup(self._parent / name)
        group.path.mkdir(exist_ok=True)
        (group.path / "memory.max").write_text(str(limit_bytes))
        return group

    def find(self, name: str) -> MemoryGroup | None:
        """The group of this name, where there is one."""
        group = MemoryGroup(self._parent / name)
        return group if group.path.is_dir() else None

    def remove(self, name: str) -> None:
        """Remove the group once its processes are gone."""
        with suppress(OSError):
            (self._parent / name).rmdir()


def find_memory_groups(root: Path = CGROUPS) -> MemoryGroups | None:
    """The groups of this machine; None where it has no version 2 memory controller, or we may not make groups in it."""
    parent = root / PARENT
    try:
        if "memory" not in (root / "cgroup.controllers").read_text().split():
            return None
        (root / "cgroup.subtree_control").write_text("+memory")
        parent.mkdir(exist_ok=True)
        (parent / "cgroup.subtree_control").write_text("+memory")
        groups = MemoryGroups(parent)
        groups.create("probe", limit_bytes=1 << 30)
        groups.remove("probe")
    except OSError:
        return None
    return groups
