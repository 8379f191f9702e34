"""What a pod's container uses, from the kernel's control groups; versions 1 and 2, any driver of the kubelet.

The kubelet makes a group for each pod, whose name has the pod's uid in it (with `_` for `-` under systemd), and the
runtime one for each container below it, whose name has the container's id in it. Where exactly they lie depends on the
node, so they are searched by name and then remembered. Version 1 has a tree for each kind of thing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from services.agent.domain.resources import Burden

DEPTH_MAX: Final = 5
_NOT_PODS: Final = frozenset({"system.slice", "user.slice", "init.scope"})
_UNIFIED: Final = "cgroup.controllers"
_CPU_V1: Final = ("cpuacct", "cpu,cpuacct")
_NANOSECONDS: Final = 1_000_000_000
_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of one container: where its CPU time and where its memory is counted."""

    cpu: Path
    memory: Path


class Cgroups:
    """Reads below the root of the node's own control groups."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, Groups] = {}

    def burden(self, pod_uid: str, container: str) -> Burden | None:
        """What the container has used and holds; None where it does not run, or cannot be found."""
        groups = self._groups(pod_uid, container)
        if groups is None:
            return None
        try:
            return Burden(_cpu_s(groups.cpu), _memory_bytes(groups.memory), len(_processes(groups.cpu)))
        except (OSError, ValueError, KeyError):
            self._known.pop(container, None)
            return None

    def pids(self, pod_uid: str, container: str) -> tuple[int, ...]:
        """The container's processes; 0 stands for one that is out of our sight. None of one that does not run."""
        groups = self._groups(pod_uid, container)
        return _processes(groups.cpu) if groups is not None else ()

    def _groups(self, pod_uid: str, container: str) -> Groups | None:
        if not container:
            return None
        known = self._known.get(container)
        if known is None or not known.cpu.exists():
            known = self._found(pod_uid, container)
            if known is None:
                return None
            self._known[container] = known
        return known

    def _found(self, pod_uid: str, container: str) -> Groups | None:
        if (self._root / _UNIFIED).exists():
            found = _find(self._root, pod_uid, container)
            return Groups(found, found) if found is not None else None
        tree = next((self._root / name for name in _CPU_V1 if (self._root / name).is_dir()), self._root)
        cpu, memory = _find(tree, pod_uid, container), _find(self._root / "memory", pod_uid, container)
        return Groups(cpu, memory) if cpu is not None and memory is not None else None


def _find(root: Path, pod_uid: str, container: str) -> Path | None:
    """The container's group, nearest first, or None."""
    uids, level = (pod_uid, pod_uid.replace("-", "_")), [root]
    for _ in range(DEPTH_MAX):
        below = [each for group in level for each in _subgroups(group)]
        pod = next((each for each in below if any(uid in each.name for uid in uids)), None)
        if pod is not None:
            return next((each for each in _subgroups(pod) if container in each.name), None)
        level = below
    return None


def _subgroups(group: Path) -> list[Path]:
    with suppress(OSError):
        return [each for each in sorted(group.iterdir()) if each.name not in _NOT_PODS and each.is_dir()]
    return []


def _cpu_s(group: Path) -> float:
    with suppress(OSError):
        return int((group / "cpuacct.usage").read_text()) / _NANOSECONDS
    return _table(group / "cpu.stat")["usage_usec"] / _MICROSECONDS


def _memory_bytes(group: Path) -> int:
    """Without pages of files that nobody has used for long: those would be given up for others."""
    stat = _table(group / "memory.stat")
    for name, idle in (("memory.current", "inactive_file"), ("memory.usage_in_bytes", "total_inactive_file")):
        with suppress(FileNotFoundError):
            return max(0, int((group / name).read_text()) - stat.get(idle, 0))
    raise FileNotFoundError(f"{group} counts no memory")


def _table(file: Path) -> dict[str, int]:
    pairs = (line.split() for line in file.read_text().splitlines())
    return {name: int(value) for name, value in pairs}


def _processes(group: Path) -> tuple[int, ...]:
    """Of the group and everything below it: a container may make groups of its own."""
    return tuple(pid for each in _groups_below(group) for pid in _pids(each))


def _groups_below(group: Path) -> Iterator[Path]:
    yield group
    for each in _subgroups(group):
        yield from _groups_below(each)


def _pids(group: Path) -> list[int]:
    with suppress(OSError):
        return [int(line) for line in (group / "cgroup.procs").read_text().split()]
    return []
