"""What a gang needs on disk before its replicas start: its code, its `/etc`, and what the agent is told of each."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from services.scheduler.engines.local.files import read_text, write_atomic
from services.scheduler.engines.local.gang_dir import GangDir, ReplicaDir
from services.scheduler.engines.local.host_tree import is_within
from services.scheduler.engines.local.mounts import open_allowed
from services.scheduler.engines.unpack import lay_code
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import CodeDirectory, CodePacked, CodeUpload, GangMount, GangStart, ReplicaStart
from shared.trees import remove_tree

CODE: Final = "/code"
LOOPBACK: Final = "127.0.0.1"
HOSTS: Final = "hosts"
FILES: Final = "trainmaster"


def prepare(gang_dir: GangDir, gang: GangStart, home: Path) -> None:
    """Lay the gang's code and files; what an interrupted call has finished is left as it is."""
    if isinstance(gang.code, CodePacked | CodeUpload):
        raise StartRefusedError("the code is not on this machine, where this engine looks for it")
    if isinstance(gang.code, CodeDirectory):
        fd = open_allowed(gang.code.path, gang.code.root, home, at=CODE, whole=True)
        try:
            lay_code(CodeDirectory(Path(f"/proc/self/fd/{fd}")), gang_dir.code, name=str(gang.code.path))
        finally:
            os.close(fd)
    elif gang.code is not None:
        lay_code(gang.code, gang_dir.code)
    _lay_etc(gang_dir.etc, gang)


@dataclass(frozen=True, slots=True)
class PlaceOnHost:
    """Where the host has a directory of a replica; below `root`, which user code cannot replace, follow no link."""

    root: str
    path: str


def describe_replica(
    replica: ReplicaDir,
    gang: GangStart,
    start: ReplicaStart,
    at: str,
    places: Mapping[str, PlaceOnHost | None],
) -> None:
    """Write `replica.json`, for people, and `ship.json`, after which the agent ships the log.

    `places` are directories that the agent looks into, `tensorboard` and `checkpoints`.
    """
    identity = {"job": gang.job, "attempt": gang.attempt, "role": start.role, "index": start.index, "node": start.node}
    limits = {"devices": start.devices, "memory_bytes": start.memory_bytes, "host_name": gang.host_name(start)}
    write_atomic(replica.identity, json.dumps(identity | limits))
    shipped: dict[str, str | None] = {
        "owner": gang.owner,
        "project": gang.project,
        "started_at": at,
        "log": replica.log.name,
    }
    for name, place in places.items():
        shipped |= {name: place.path if place else None, f"{name}_root": place.root if place else None}
    write_atomic(replica.ship, json.dumps(identity | shipped))


def places_on_host(
    gang: GangStart, start: ReplicaStart, code: Path, *, sandboxed: bool
) -> dict[str, PlaceOnHost | None]:
    """Where event files and checkpoints of the gang are; told of rank 0 only, since all replicas share the mount."""
    named = {"tensorboard": gang.tensorboard_dir, "checkpoints": gang.checkpoint_dir}
    if start is not gang.replicas[0]:
        return dict.fromkeys(named)
    return {name: _on_host(gang, path, code, sandboxed=sandboxed) if path else None for name, path in named.items()}


def _on_host(gang: GangStart, directory: str, code: Path, *, sandboxed: bool) -> PlaceOnHost | None:
    path = os.path.normpath(directory)
    for mount in (*gang.mounts, GangMount(code, CODE)):
        if is_within(path, mount.path):
            return _below(mount, path[len(mount.path.rstrip("/")) :].lstrip("/"))
    return None if sandboxed else PlaceOnHost(path, path)


def _below(mount: GangMount, rest: str) -> PlaceOnHost | None:
    if mount.source is None:
        return None
    source = os.path.realpath(mount.source)
    root = os.path.realpath(mount.root) if mount.root else source
    return PlaceOnHost(root, os.path.normpath(f"{source}/{rest}")) if is_within(source, root) else None


def _lay_etc(target: Path, gang: GangStart) -> None:
    if target.exists():
        return
    partial = target.with_name(target.name + ".partial")
    remove_tree(partial)
    (partial / FILES).mkdir(parents=True)
    (partial / HOSTS).write_text(read_text(Path("/etc/hosts")).rstrip("\n") + "\n" + "".join(_host_lines(gang)))
    for name, text in gang.files.items():
        path = partial / FILES / _relative(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    partial.rename(target)


def _host_lines(gang: GangStart) -> Iterator[str]:
    """Every replica is on this machine."""
    for replica in gang.replicas:
        yield f"{LOOPBACK} {gang.host_name(replica)} {gang.replica_id(replica)}\n"


def _relative(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise StartRefusedError(f"{name!r} is no name of a file below /etc/trainmaster; it must be relative")
    return path
