"""What the operating system gives: a home that can be written, disk space, the port, a right clock, enough files."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from deploy.local.doctor.finding import Finding, fail, ok, warn
from deploy.local.home import MIN_FREE_BYTES, Home, RunningPlatform
from shared.units import GIB, format_bytes

DISK_WARN_BYTES: Final = 10 * GIB
INODES_MIN: Final = 100_000
NETWORK_FILE_SYSTEMS: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph"})
OPEN_FILES_MIN: Final = 4096
PORT_MAX: Final = 65535
INOTIFY: Final = Path("/proc/sys/fs/inotify")
INOTIFY_MIN: Final[Mapping[str, int]] = {"max_user_instances": 64, "max_user_watches": 8192}
CLOCK_FLOOR_S: Final = 1_767_225_600  # 2026-01-01: no machine that has this version has an earlier date
SET_BACK_S: Final = 60.0
_TIME_ERROR: Final = 5
_TIMEX_BYTES: Final = 512  # more than struct timex takes on any architecture


def home(place: Home) -> Finding:
    """Whether the state directory can be made, written, and is nobody else's."""
    existing = _existing(place.root)
    other = "trainmaster up --home DIR, with a directory on a local disk"
    if not os.access(existing, os.W_OK | os.X_OK):
        return fail("home", f"{existing} cannot be written, so {place.root} cannot be used", other)
    kind = file_system(existing)
    if kind in NETWORK_FILE_SYSTEMS:
        return warn("home", f"{place.root} is on {kind}, where locks and syncs cannot be relied on", other)
    if place.root.exists() and place.root.stat().st_mode & 0o077:
        return warn("home", f"{place.root} can be read by others", f"chmod 700 {place.root}")
    return ok("home", f"{place.root} on {kind or 'an unknown file system'}")


def disk(place: Home, free_bytes: int | None = None, inodes: int | None = None) -> Finding:
    """Whether there is room for logs and state."""
    existing = _existing(place.root)
    state = os.statvfs(existing)
    free_bytes = shutil.disk_usage(existing).free if free_bytes is None else free_bytes
    inodes = state.f_favail if inodes is None else inodes
    told = f"{format_bytes(free_bytes)} free at {existing}"
    mend = "make room, or use another disk: trainmaster up --home DIR"
    if free_bytes < MIN_FREE_BYTES:
        return fail("disk", f"{told}: too little to run", mend)
    if free_bytes < DISK_WARN_BYTES:
        return warn("disk", f"{told}: logs may fill it", mend)
    if state.f_files and inodes < INODES_MIN:
        return warn("disk", f"{told}, but only {inodes} files can be made", mend)
    return ok("disk", told)


def port(number: int, running: RunningPlatform | None) -> Finding:
    """Whether the HTTP port is free, or the platform's own."""
    if running is not None:
        return ok("port", f"the platform of this home has {running.url}")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError as error:
            other = number + 1 if number < PORT_MAX else 0
            return fail("port", f"port {number} cannot be had: {error.strerror}", f"trainmaster up --port {other}")
    return ok("port", f"port {number} is free on loopback")


def clock(place: Home, now_s: float | None = None, *, synchronized: bool | None = None) -> Finding:
    """Whether the clock is plausible, was not set back, and is kept right."""
    now_s = time.time() if now_s is None else now_s
    mend = "timedatectl set-ntp true"
    if now_s < CLOCK_FLOOR_S:
        return fail("clock", f"it is {time.strftime('%Y-%m-%d', time.gmtime(now_s))} here, which is past", mend)
    ahead_s = max((file.stat().st_mtime for file in _times(place)), default=0.0) - now_s
    if ahead_s > SET_BACK_S:
        return warn("clock", f"files in {place.root} are {ahead_s:.0f} s in the future: it was set back", mend)
    if not (is_synchronized() if synchronized is None else synchronized):
        return warn(
            "clock", "the kernel does not know it to be right: bills and logs have the machine's own time", mend
        )
    return ok("clock", "synchronized")


def is_synchronized() -> bool:
    """Whether the kernel says that something (NTP, PTP) keeps its clock right."""
    library = ctypes.CDLL(None, use_errno=True)
    state: int = library.adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))  # modes = 0: nothing is set
    return 0 <= state < _TIME_ERROR


def open_files(limits: tuple[int, int] | None = None) -> Finding:
    """Whether the platform may open enough files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE) if limits is None else limits
    told = f"{'any number' if soft == resource.RLIM_INFINITY else soft} for a process"
    if soft == resource.RLIM_INFINITY or soft >= OPEN_FILES_MIN:
        return ok("open-files", told)
    enough = hard == resource.RLIM_INFINITY or hard >= OPEN_FILES_MIN
    mend = f"ulimit -n {65536 if hard == resource.RLIM_INFINITY else hard}" if enough else "raise nofile in limits.conf"
    return warn("open-files", f"{told}: many replicas or followers need {OPEN_FILES_MIN}", mend)


def inotify(root: Path = INOTIFY) -> Finding:
    """Whether the agent can watch the logs of many replicas."""
    for name, wanted in INOTIFY_MIN.items():
        limit = int((root / name).read_text())
        if limit < wanted:
            message = f"{name} is {limit}: logs of many replicas come late"
            return warn("inotify", message, f"sysctl -w fs.inotify.{name}={wanted * 8}")
    return ok("inotify", ", ".join(f"{name} {(root / name).read_text().strip()}" for name in INOTIFY_MIN))


def file_system(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """Type of the file system that the path is on; empty where it is not known."""
    real = os.path.realpath(path)
    best, found = "", ""
    for line in mounts.read_text().splitlines():
        _device, point, kind, *_ = line.split(" ")
        point = point.encode().decode("unicode_escape")
        if len(point) >= len(best) and (real == point or real.startswith(point.rstrip("/") + "/")):
            best, found = point, kind
    return found


def _existing(path: Path) -> Path:
    """The path, or the nearest folder above it that is there."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _times(place: Home) -> Iterator[Path]:
    return (file for file in (place.log, place.state, place.lock) if file.exists())
