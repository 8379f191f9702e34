"""Where things are in the service's directory.

| path | content |
|---|---|
| `wal/<partition>/` | write-ahead log of a partition |
| `store/<job>/<attempt>/<role>/<index>/` | segments of a replica's log |
| `store/<job>/<attempt>/<role>/<index>/tb/` | its event files, byte for byte; `tb.2` has second generations |
| `store/<job>/<attempt>/<role>/<index>/resources/samples` | what the replica used, see `shared.resource_samples` |
| `store/<job>/<attempt>/<role>/<index>/mirrored.json` | which of these two have a copy in the archive |
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from services.logs.adapters.segment_files import parse_name, segment_named
from services.logs.adapters.segments import Place
from services.logs.ports import Archive
from shared.logs_wire import FileRef, ReplicaRef

_TB: Final = "tb"
_FOLDERS: Final = {"tb": _TB, "use": "resources"}
_SAMPLES: Final = "samples"


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths below one directory, and the archive beside it."""

    root: Path
    archive: Archive | None = None

    def wal(self, partition: int) -> Path:
        """Write-ahead log of a partition."""
        return self.root / "wal" / f"{partition:02d}"

    def job(self, job: str) -> Path:
        """Everything stored of a job."""
        return self.root / "store" / job

    def replica(self, replica: ReplicaRef) -> Path:
        """Everything stored of a replica."""
        return self.job(replica.job) / str(replica.attempt) / replica.role / str(replica.index)

    def segments(self, replica: ReplicaRef) -> Place:
        """Where the segments of a replica's log are."""
        key = f"{replica.job}/{replica.attempt}/{replica.role}/{replica.index}"
        return Place(self.replica(replica), key)

    def job_bytes(self, job: str) -> int:
        """What a job takes, in the directory and in the archive."""
        return sum(_bytes_of(path) for path in self.job(job).rglob("*") if path.is_file())

    def jobs(self) -> list[str]:
        """Jobs of which something is in the directory."""
        root = self.root / "store"
        return sorted(entry.name for entry in os.scandir(root)) if root.is_dir() else []

    def event_file(self, file: FileRef, generation: int) -> Path:
        """One generation of an event file, or of a replica's samples."""
        folder = _generation_name(_FOLDERS[file.kind], generation)
        return self.replica(file.replica) / folder / (file.path or _SAMPLES)

    def last_generation(self, file: FileRef) -> int:
        """Highest generation of an event file, or of samples, that is stored; 1 where none is."""
        folders = self.replica(file.replica).glob(f"{_FOLDERS[file.kind]}*")
        numbers = (_generation_number(path) for path in folders)
        present = [number for number in numbers if self.event_file(file, number).is_file()]
        return max(present, default=1)

    def replicas(self, job: str) -> set[ReplicaRef]:
        """The replicas of which something is stored."""
        return set(self.replicas_here(job))

    def replicas_here(self, job: str) -> Iterator[ReplicaRef]:
        """The replicas of which something is in the directory."""
        root = self.job(job)
        for directory in root.glob("*/*/*"):
            attempt, role, index = directory.relative_to(root).parts
            yield ReplicaRef(job, int(attempt), role, int(index))

    def has_loose_segments(self, replica: ReplicaRef) -> bool:
        """Whether segments of the log are in the directory that may have to be packed anew, or put into the archive."""
        names = [parse_name(path.name) for path in self.replica(replica).glob("seg-*")]
        return any(name is not None and (name.stop is None or self.archive is not None) for name in names)

    def event_files(self, replica: ReplicaRef) -> Iterator[tuple[str, Path]]:
        """Relative path and place of the event files of a replica, generations in order."""
        for root in sorted(self.replica(replica).glob(f"{_TB}*"), key=_generation_number):
            for path in sorted(path for path in root.rglob("*") if path.is_file()):
                yield path.relative_to(root).as_posix(), path

    def samples(self, replica: ReplicaRef) -> list[Path]:
        """The files of a replica's samples, generations in order."""
        folders = sorted(self.replica(replica).glob(f"{_FOLDERS['use']}*"), key=_generation_number)
        return [folder / _SAMPLES for folder in folders]

    def loose_files(self, replica: ReplicaRef) -> Iterator[Path]:
        """All files of a replica that are no segments."""
        yield from (path for _, path in self.event_files(replica))
        yield from (path for path in self.samples(replica) if path.is_file())

    def event_roots(self, job: str) -> Iterator[tuple[ReplicaRef, int, Path]]:
        """The directories of event files of a job: replica, generation, place."""
        for replica in sorted(self.replicas_here(job)):
            for root in sorted(self.replica(replica).glob(f"{_TB}*"), key=_generation_number):
                yield replica, _generation_number(root), root


def is_loose_folder(name: str) -> bool:
    """Whether a folder of a replica holds event files or samples, of any generation."""
    folder, _, number = name.partition(".")
    return folder in _FOLDERS.values() and (not number or number.isdecimal())


def _generation_name(folder: str, generation: int) -> str:
    return folder if generation == 1 else f"{folder}.{generation}"


def _generation_number(path: Path) -> int:
    _, _, number = path.name.partition(".")
    return int(number or 1)


def _bytes_of(path: Path) -> int:
    segment = segment_named(path.parent, "", path.name)
    return segment.size if segment is not None and segment.is_archived else path.stat().st_size
