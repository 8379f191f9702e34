"""The node's directories, looked at from within a container that has them below a folder of its own, read-only.

Rights are not looked at, as the container's user has others than whoever mounts a directory later; nor is one that is
missing a fault, as it may be made by then. What shows is a file system that gives errors, or that is read-only itself,
whatever its mount in the container is: as after an error of the disk.
"""

from __future__ import annotations

import os
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")


def looked_at(root: str, places: dict[str, bool]) -> dict[str, list[str]]:
    """Places whose file system gives errors, and those that must be writable and whose file system is not."""
    read_only = _read_only_mounts(MOUNTS.read_text())
    found: dict[str, list[str]] = {"unreachable": [], "read_only": []}
    for place, writable in places.items():
        try:
            there = _nearest(Path(root), place)
        except OSError:
            found["unreachable"].append(place)
            continue
        if writable and read_only.get(_mount_of(there, read_only), False):
            found["read_only"].append(place)
    return found


def _nearest(root: Path, place: str) -> Path:
    """The place, or the first directory above it that there is; raises OSError where it cannot be read."""
    path = root / place.lstrip("/")
    while True:
        try:
            with os.scandir(path) as entries:
                next(entries, None)
        except (FileNotFoundError, NotADirectoryError):
            if path == root:
                raise
            path = path.parent
            continue
        except PermissionError:
            pass
        return path


def _read_only_mounts(listed: str) -> dict[str, bool]:
    """Whether the file system is read-only, for each place where one is mounted."""
    found: dict[str, bool] = {}
    for line in listed.splitlines():
        before, _, after = line.partition(" - ")
        options = after.split()[2:]
        found[_plain(before.split()[4])] = bool(options) and "ro" in options[0].split(",")
    return found


def _plain(path: str) -> str:
    """Spaces and the like are written as octal numbers there."""
    for code, letter in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
        path = path.replace(code, letter)
    return path


def _mount_of(path: Path, mounts: dict[str, bool]) -> str:
    return next((str(each) for each in (path, *path.parents) if str(each) in mounts), "/")
