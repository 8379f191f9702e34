"""Event files and samples in the archive: copies of what stays in the directory, so that they survive its loss.

Unlike segments these files are read by programs that want files, TensorBoard first of all, so they are not moved. A
file that was quiet for a while is copied, and again when it has changed since; `mirrored.json` in a replica's directory
tells the size and time of each copy. A directory that is new takes the copies back (`archive_index`). Users choose the
names of event files, so keys are those names quoted.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

from services.logs.adapters.disk import make_directories, sync_directory
from services.logs.adapters.fetching import fetch
from services.logs.adapters.layout import Layout
from services.logs.ports import Archive
from shared.logs_wire import ReplicaRef

_RECORD: Final = "mirrored.json"


@dataclass(frozen=True, slots=True)
class Mirrored:
    """How many files were copied, and how many are left because they are being written."""

    copied: int = 0
    left: int = 0


def mirror(layout: Layout, replica: ReplicaRef, archive: Archive, quiet_since_s: float) -> Mirrored:
    """Copy what has changed and was not written to since then. Raises UnavailableError."""
    directory, key = layout.replica(replica), layout.segments(replica).key
    recorded, copied, left = _recorded(directory), 0, 0
    for path in layout.loose_files(replica):
        found, name = path.stat(), path.relative_to(directory).as_posix()
        state = [found.st_size, found.st_mtime_ns]
        if found.st_mtime >= quiet_since_s:
            left += 1
            continue
        if recorded.get(name) == state:
            continue
        copy = f"{key}/{quote(os.fsencode(name))}"
        archive.put(copy, path)
        if not directory.exists():  # the job was deleted meanwhile
            archive.delete([copy])
            return Mirrored(copied)
        recorded[name] = state
        _write(directory / _RECORD, json.dumps(recorded).encode())
        copied += 1
    return Mirrored(copied, left)


def name_of(quoted: str) -> str:
    """The name that a key tells."""
    return os.fsdecode(unquote_to_bytes(quoted))


def take_back(archive: Archive, key: str, size: int, path: Path) -> None:
    """Bring a copy to its place, unless something is there already; raises UnavailableError."""
    if path.exists():
        return
    new_names_in = {path.parent, *make_directories(path.parent)}
    fetch(archive, key, size, path)
    for directory in new_names_in:
        sync_directory(directory)


def _recorded(directory: Path) -> dict[str, Any]:
    try:
        recorded = json.loads((directory / _RECORD).read_bytes())
    except (OSError, ValueError):
        return {}
    return recorded if isinstance(recorded, dict) else {}


def _write(path: Path, content: bytes) -> None:
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_bytes(content)
    partial.rename(path)
