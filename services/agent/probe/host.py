"""What the machine is and has: kind, memory, room, limits of processes, its name, and directories in question."""

from __future__ import annotations

import os
import resource
import socket
import sys
from pathlib import Path


def memory() -> tuple[int, int]:
    """Total and available memory in bytes."""
    found = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        found[name] = int(value.split()[0]) * 1024
    return found["MemTotal"], found.get("MemAvailable", found["MemFree"])


def free_bytes(directory: str) -> int:
    """Room for us in a file system; 0 where it cannot be asked."""
    try:
        state = os.statvfs(directory)
    except OSError:
        return 0
    return state.f_bavail * state.f_frsize


def kind() -> str:
    """What machine this is: those of one kind can be compared."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return f"{next(models, os.uname().machine)}, Python {sys.version_info[0]}.{sys.version_info[1]}"


def looked_at(places: dict[str, bool]) -> dict[str, list[str]]:
    """Places that cannot be read, and those that must be writable and are not; one that is missing can be made."""
    there = {place: _nearest(place) for place in places}
    readable = [place for place in places if os.access(there[place], os.R_OK | os.X_OK)]
    return {
        "unreachable": [place for place in places if place not in readable],
        "read_only": [place for place in readable if places[place] and not _is_writable(there[place])],
    }


def _nearest(place: str) -> str:
    """The place, or the first directory above it that there is."""
    return next(str(path) for path in (Path(place), *Path(place).absolute().parents) if path.exists())


def _is_writable(place: str) -> bool:
    return os.access(place, os.W_OK) and not os.statvfs(place).f_flag & os.ST_RDONLY


def resolves() -> bool:
    """Whether the machine's own name has an address."""
    try:
        return bool(socket.getaddrinfo(socket.gethostname(), None))
    except OSError:
        return False


def limits() -> dict[str, int]:
    """How much a process may have at most, where it may ask for that itself; -1 is any amount."""
    asked = {"open_files": resource.RLIMIT_NOFILE, "processes": resource.RLIMIT_NPROC}
    asked |= {"locked_bytes": resource.RLIMIT_MEMLOCK, "stack_bytes": resource.RLIMIT_STACK}
    return {name: resource.getrlimit(which)[1] for name, which in asked.items()}
