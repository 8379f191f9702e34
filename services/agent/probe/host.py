"""What the machine is and has: kind, memory, room, limits of processes, its name, and directories in question."""

from __future__ import annotations

import os
import resource
import socket
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from . import writing

RESOLVED_S = 4.0


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
    """Places that cannot be read, and those that must be writable and are not; one that is missing can be made.

    A directory that must be writable is written to; where it is missing, the one above is looked at alone.
    """
    there = {place: _nearest(place) for place in places}
    readable = [place for place in places if os.access(there[place], os.R_OK | os.X_OK)]
    return {
        "unreachable": [place for place in places if place not in readable],
        "read_only": [place for place in readable if places[place] and not _is_writable(place, there[place])],
    }


def _nearest(place: str) -> str:
    """The place, or the first directory above it that there is."""
    return next(str(path) for path in (Path(place), *Path(place).absolute().parents) if path.exists())


def _is_writable(place: str, there: str) -> bool:
    if not os.access(there, os.W_OK) or os.statvfs(there).f_flag & os.ST_RDONLY:
        return False
    return not Path(place).is_dir() or writing.keeps(there)


def unresolved(names: Iterable[str]) -> list[str]:
    """Names that have no address, or of which it is not known in time."""
    found: dict[str, bool] = {}
    threads = [threading.Thread(target=lambda each=name: found.update({each: _resolves(each)})) for name in names]
    for thread in threads:
        thread.daemon = True  # a resolver may not answer for long
        thread.start()
    for thread in threads:
        thread.join(RESOLVED_S)
    return [name for name in names if not found.get(name, False)]


def _resolves(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name.encode(), None))
    except OSError:
        return False


def limits() -> dict[str, int]:
    """How much a process may have at most, where it may ask for that itself; -1 is any amount."""
    asked = {"open_files": resource.RLIMIT_NOFILE, "processes": resource.RLIMIT_NPROC}
    asked |= {"locked_bytes": resource.RLIMIT_MEMLOCK, "stack_bytes": resource.RLIMIT_STACK}
    return {name: resource.getrlimit(which)[1] for name, which in asked.items()}
