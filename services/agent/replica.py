"""One replica on this machine: its directory, the files of it that are shipped, and whether they are complete.

The engine lays the directory `gangs/<gang>/replicas/<role>-<index>/` and writes `ship.json` before the start. The
runner holds a lock on `lock` for as long as anything of the replica runs and writes `exit.json` at its end, so the log
is complete when `exit.json` is there and the lock is free. Event files are complete when that holds for every replica
of the gang on this machine, because any of them may write there. When all is kept `shipped.json` tells the engine that
the directory is not needed any more.

`samples` is the agent's own (see `sampler`); it is there from the replica's first sample on.

Locks are tried only where `exit.json` exists: before that, a try could be in the way of the runner's own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from services.agent.domain.manifest import Manifest, ManifestError, parse_manifest
from services.agent.domain.tail import Tail
from services.agent.memory import Memory, write_atomically
from services.agent.source import Source
from services.agent.tensorboard import event_files
from shared.locks import is_locked
from shared.logs_wire import FileRef, Kind

SHIP_FILE = "ship.json"
SHIPPED_FILE = "shipped.json"
SAMPLES_FILE = "samples"
EXIT_FILE = "exit.json"
_LOCK_FILE = "lock"


@dataclass(frozen=True, slots=True)
class TailedFile:
    """A file being shipped: its state, how to reach it, and its number within the replica."""

    tail: Tail
    source: Source
    number: int


class Replica:
    """A replica whose files are not all kept yet."""

    def __init__(self, directory: Path, manifest: Manifest, memory: Memory) -> None:
        self.directory = directory
        self.manifest = manifest
        self._memory = memory
        self._saved = memory.load(manifest.replica)
        self.files: dict[FileRef, TailedFile] = {}
        self.log = self._add("log", "", Source(directory, manifest.log))
        if (directory / SAMPLES_FILE).exists():
            self.add_samples()
        self.all_found = manifest.tensorboard is None
        """Whether no further event file can turn up."""

    @property
    def gang(self) -> str:
        """Directory name of the gang."""
        return self.directory.parent.parent.name

    @property
    def done(self) -> bool:
        """Whether every file is kept with its end."""
        return self.all_found and all(file.tail.done for file in self.files.values())

    @property
    def unsaved(self) -> bool:
        """Whether something must be remembered before more is sent."""
        return any(file.tail.unsaved for file in self.files.values())

    def unfinished(self, kind: Kind) -> list[TailedFile]:
        """The files of a kind, as far as they are not all kept."""
        return [file for ref, file in self.files.items() if ref.kind == kind and not file.tail.done]

    def numbered(self, number: int) -> TailedFile | None:
        """The file with this number."""
        return next((file for file in self.files.values() if file.number == number), None)

    def has_ended(self) -> bool:
        """Whether nothing of the replica runs any more."""
        if not self.directory.exists():
            return True
        return is_written(self.directory / EXIT_FILE) and not is_locked(self.directory / _LOCK_FILE)

    def find_event_files(self) -> list[str]:
        """Event files of this attempt; may take long on a slow file system."""
        directory = self.manifest.tensorboard
        if directory is None:
            return []
        return event_files(Path(directory.root), str(directory.below), since_s=self.manifest.started_at_s)

    def add_event_files(self, paths: list[str]) -> None:
        """Ship these too."""
        directory = self.manifest.tensorboard
        for path in paths:
            if directory and FileRef(self.manifest.replica, "tb", path) not in self.files:
                self._add("tb", path, Source(Path(directory.root), str(directory.below / path)))

    def add_samples(self) -> None:
        """Ship the samples of what the replica uses, too."""
        if FileRef(self.manifest.replica, "use") not in self.files:
            self._add("use", "", Source(self.directory, SAMPLES_FILE))

    def own_files(self) -> list[TailedFile]:
        """The log, and the samples where there are any: what lies in the replica's directory."""
        return [file for ref, file in self.files.items() if ref.kind != "tb"]

    def save(self) -> None:
        """Remember how far everything is kept, where that has changed."""
        if not any(file.tail.dirty for file in self.files.values()):
            return
        self._memory.save(self.manifest.replica, [file.tail.saved() for file in self.files.values()])
        for file in self.files.values():
            file.tail.dirty = file.tail.unsaved = False

    def finish(self) -> None:
        """Tell the engine that everything is kept, and forget the replica."""
        if self.directory.exists():
            size_bytes = sum(file.tail.size for ref, file in self.files.items() if ref.kind != "use")
            write_atomically(self.directory / SHIPPED_FILE, json.dumps({"bytes": size_bytes}))
        self.close()
        self._memory.forget(self.manifest.replica)

    def close(self) -> None:
        """Let go of all files."""
        for file in self.files.values():
            file.source.close()

    def _add(self, kind: Kind, path: str, source: Source) -> TailedFile:
        ref = FileRef(self.manifest.replica, kind, path)
        tail = Tail(ref, self.manifest.node, self._saved.get(ref))
        file = TailedFile(tail, source, number=len(self.files))
        self.files[ref] = file
        return file


def open_replica(directory: Path, memory: Memory) -> Replica | None:
    """The replica of a directory; None where it is not ready for shipping, or shipped already."""
    if (directory / SHIPPED_FILE).exists():
        return None
    try:
        manifest = parse_manifest((directory / SHIP_FILE).read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"{SHIP_FILE} cannot be read: {error}") from error
    return Replica(directory, manifest, memory)


def is_written(path: Path) -> bool:
    """Whether the file exists and has content; the runner may be given an empty one to write into."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False
