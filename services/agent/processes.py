"""The processes of the replicas on this machine, as `/proc` tells of them.

Which process is whose: bubblewrap wrote the PID namespace of a replica into its `sandbox.json`, and everything in that
namespace is the replica's, but for its first process, which is our own runner. Where there is none (no sandbox here),
the variables `TM_*` that every command of a replica is started with tell; code can change its own variables, but so it
can only disown its processes, or show them to another job's owner.

A process is a rank where torchrun started it (`LOCAL_RANK` is set, and not in its parent, as its own children inherit
it). Of a process's environment only its rank and the places of PyTorch's flight recorder are looked at.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from services.agent.domain.resources import Burden
from shared.logs_wire import ReplicaRef

PROC: Final = Path("/proc")
SANDBOX_FILE: Final = "sandbox.json"
_COMMAND_MAX: Final = 300
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PYTHON: Final = "python"
_MAPS_MAX_BYTES: Final = 1 << 20

Environment = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """What `/proc` says of one process at one moment."""

    pid: int
    parent: int
    command: str
    state: str
    waits_in: str
    thread_count: int
    cpu_s: float
    memory_bytes: int
    read_bytes: int | None
    written_bytes: int | None


def pids_of(replicas: Mapping[ReplicaRef, Path]) -> dict[ReplicaRef, list[int]]:
    """The processes of each replica, whose directory is given, by increasing pid."""
    found: dict[ReplicaRef, list[int]] = {replica: [] for replica in replicas}
    sandboxes = {replica: sandbox for replica, path in replicas.items() if (sandbox := _sandbox_of(path)) is not None}
    of_namespace = {sandbox.namespace: replica for replica, sandbox in sandboxes.items()}
    unshut = {_identity(replica): replica for replica in replicas if replica not in sandboxes}
    runners = {sandbox.runner for sandbox in sandboxes.values()}
    for pid in (each for each in _all_pids() if each not in runners):
        replica = of_namespace.get(_pid_namespace(pid) or 0) or (unshut.get(_identity_of(pid)) if unshut else None)
        if replica is not None:
            found[replica].append(pid)
    return found


def facts_of(pid: int) -> ProcessFacts | None:
    """What the process does now; None where it has ended."""
    try:
        stat = _text(f"{pid}/stat")
    except OSError:
        return None
    name, _, rest = stat.partition("(")[2].rpartition(")")
    fields = rest.split()
    read_bytes, written_bytes = _io(pid)
    return ProcessFacts(
        pid=pid,
        parent=int(fields[1]),
        command=_command(pid) or f"[{name}]",
        state=fields[0],
        waits_in=_waits_in(pid),
        thread_count=int(fields[17]),
        cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND,
        memory_bytes=int(fields[21]) * _PAGE_BYTES,
        read_bytes=read_bytes,
        written_bytes=written_bytes,
    )


def burden_of(pid: int) -> Burden | None:
    """What the process used with the children that it waited for; None where it has ended."""
    try:
        fields = _text(f"{pid}/stat").rpartition(")")[2].split()
    except OSError:
        return None
    ticks = sum(int(field) for field in fields[11:15])
    return Burden(ticks / _TICKS_A_SECOND, int(fields[21]) * _PAGE_BYTES)


def environment_of(pid: int) -> Environment:
    """The variables that the process was started with; none where they cannot be read."""
    try:
        entries = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    pairs = (os.fsdecode(entry).partition("=") for entry in entries)
    return {name: value for name, separator, value in pairs if separator}


def rank_of(own: Environment, parents: Environment) -> int | None:
    """The rank that the process is, where it is one by itself."""
    rank = own.get("RANK", "")
    is_worker = "LOCAL_RANK" in own and "LOCAL_RANK" not in parents
    return int(rank) if is_worker and rank.isdecimal() else None


def is_python(pid: int) -> bool:
    """Whether the process runs Python, as its program or as a library."""
    with suppress(OSError):
        if _PYTHON in (PROC / str(pid) / "exe").readlink().name:
            return True
        with (PROC / str(pid) / "maps").open("rb") as maps:
            return b"libpython" in maps.read(_MAPS_MAX_BYTES)
    return False


@dataclass(frozen=True, slots=True)
class _Sandbox:
    """A replica's runner, and the inode of its PID namespace."""

    runner: int
    namespace: int


def _sandbox_of(directory: Path) -> _Sandbox | None:
    """The replica's sandbox; None where bubblewrap told of none, or its first process is another's now."""
    try:
        told = json.loads((directory / SANDBOX_FILE).read_text())
        pid, namespace = int(told["child-pid"]), int(told["pid-namespace"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return _Sandbox(pid, namespace) if _pid_namespace(pid) == namespace else None


def _identity(replica: ReplicaRef) -> tuple[str, ...]:
    return replica.job, str(replica.attempt), replica.role, str(replica.index)


def _identity_of(pid: int) -> tuple[str, ...]:
    given = environment_of(pid)
    return tuple(given.get(name, "") for name in ("TM_JOB_ID", "TM_ATTEMPT", "TM_ROLE", "TM_INDEX"))


def _all_pids() -> Iterator[int]:
    pids = sorted(int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal())
    return (pid for pid in pids if pid != os.getpid())


def _pid_namespace(pid: int) -> int | None:
    try:
        return (PROC / str(pid) / "ns" / "pid").stat().st_ino
    except OSError:
        return None


def _text(path: str) -> str:
    return (PROC / path).read_text("utf-8", "replace")


def _command(pid: int) -> str:
    with suppress(OSError):
        return " ".join(_text(f"{pid}/cmdline").split("\0")).strip()[:_COMMAND_MAX]
    return ""


def _waits_in(pid: int) -> str:
    with suppress(OSError):
        return _text(f"{pid}/wchan").strip().removeprefix("0")[:80]
    return ""


def _io(pid: int) -> tuple[int | None, int | None]:
    """Bytes that were really read from and written to storage; None where the kernel does not tell us."""
    try:
        counters = dict(line.split(": ", 1) for line in _text(f"{pid}/io").splitlines())
        return int(counters["read_bytes"]), int(counters["write_bytes"])
    except (OSError, ValueError, KeyError):
        return None, None
