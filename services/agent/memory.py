"""What the agent remembers over a restart: how far each file of a replica is kept, one small JSON file a replica.

Files are replaced atomically and not synced: after a power loss older offsets are read, bytes are sent again that
`logs` has already, and `logs` says so. The same holds for a file that is missing or damaged. A surrogate-escaped path
is plain ASCII in JSON, so every file name survives.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from services.agent.domain.tail import SavedTail
from shared.logs_wire import FileRef, ReplicaRef


class Memory:
    """The agent's own directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self, replica: ReplicaRef) -> dict[FileRef, SavedTail]:
        """What was saved of the replica's files."""
        try:
            entries = json.loads(self._path(replica).read_text("ascii"))["files"]
            tails = [_tail_of(replica, entry) for entry in entries]
        except (OSError, KeyError, TypeError, ValueError):
            return {}
        return {tail.file: tail for tail in tails}

    def save(self, replica: ReplicaRef, tails: Iterable[SavedTail]) -> None:
        """Remember these files of the replica, and no others."""
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._path(replica)
        write_atomically(path, json.dumps({"files": [_entry_of(tail) for tail in tails]}))

    def forget(self, replica: ReplicaRef) -> None:
        """The replica is of the past."""
        self._path(replica).unlink(missing_ok=True)

    def _path(self, replica: ReplicaRef) -> Path:
        return self._directory / f"{replica.tokens}.json"


def write_atomically(path: Path, text: str) -> None:
    """Write a small file so that a reader sees the old content or the new one, never half of it."""
    partial = path.with_name(f".{path.name}.part")
    partial.write_text(text, "ascii")
    partial.replace(path)


def _entry_of(tail: SavedTail) -> dict[str, Any]:
    return {
        "kind": tail.file.kind,
        "path": tail.file.path,
        "generation": tail.generation,
        "kept": tail.kept,
        "published": tail.published,
        "fingerprint": tail.fingerprint.hex(),
    }


def _tail_of(replica: ReplicaRef, entry: dict[str, Any]) -> SavedTail:
    file = FileRef(replica, entry["kind"], entry["path"])
    return SavedTail(
        file=file,
        generation=int(entry["generation"]),
        kept=int(entry["kept"]),
        published=int(entry["published"]),
        fingerprint=bytes.fromhex(entry["fingerprint"]),
    )
