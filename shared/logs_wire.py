"""How log and TensorBoard bytes travel from the node agents to `logs` and `watchdog`, and what `logs` answers.

A *file* is the log of a replica, one TensorBoard file of it (`tb`), or the samples of what it uses (`use`). Its bytes
go as chunks on `tm.log.<partition>.<job>.<attempt>.<role>.<index>`: raw bytes as body, everything else in headers. The
offset is that of the first byte within the file; an empty chunk with `Tm-End` says that the file is complete. A file
that was truncated or replaced under the agent begins anew at offset 0 with the next *generation* (`Tm-Generation`, 1
where it is left out), so that bytes of different content can never meet at one offset.

A chunk may tell in `Tm-Phase` which phase the replica has declared in its phase file, and in `Tm-Checkpoint` the
furthest file that the attempt has written in its checkpoint directory; one that tells nothing else is an empty chunk at
offset 0, which is behind or at whatever anybody has, and so moves nobody.

`logs` announces on `tm.kept.<job>.<attempt>.<role>.<index>` how far a file is durable. Chunks may be lost, repeated or
reordered on the way; the announced offset is what an agent goes by, and `gap` tells it to send again from there.

The module imports little, because the agent is meant to be small.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal
from urllib.parse import quote, unquote

from shared.errors import TrainmasterError

LOG_PARTITIONS: Final = 16
CHUNK_MAX_BYTES: Final = 64 * 1024
LOG_SUBJECTS: Final = "tm.log.>"
CHUNK_SUBJECTS: Final = "tm.log.*.*.*.*.*"
"""Those of these that chunks have: partition, job, attempt, role and index."""
KEPT_SUBJECTS: Final = "tm.kept.>"
EVENT_FILE_MARK: Final = "tfevents"
"""What TensorBoard's files have in their names."""
PHASE_FILE: Final = "trainmaster-phase"
"""Name of the phase file in a replica's own `/tmp`."""

Kind = Literal["log", "tb", "use"]
Times = tuple[tuple[int, int], ...]

_LABEL: Final = r"[a-z0-9][a-z0-9-]{0,62}"
_NUMBER: Final = r"\d{1,10}"
_NO_PHASE: Final = "-"
_REPLICAS_KNOWN: Final = 4096
_REPLICA: Final = rf"(?P<job>{_LABEL})\.(?P<attempt>{_NUMBER})\.(?P<role>{_LABEL})\.(?P<index>{_NUMBER})"
_LOG_SUBJECT: Final = re.compile(rf"tm\.log\.{_NUMBER}\.{_REPLICA}", re.ASCII)
_KEPT_SUBJECT: Final = re.compile(rf"tm\.kept\.{_REPLICA}", re.ASCII)
_PATH_MAX_BYTES: Final = 1024
_PART_MAX_BYTES: Final = 240


class MalformedChunkError(TrainmasterError):
    """A message on the log subjects that is no chunk, or a kept announcement that is none."""

    code = "malformed"


@dataclass(frozen=True, slots=True, order=True)
class ReplicaRef:
    """One replica of one attempt of a job."""

    job: str
    attempt: int
    role: str
    index: int

    @property
    def partition(self) -> int:
        """Partition that all chunks of the job go to."""
        return partition_of(self.job)

    @property
    def tokens(self) -> str:
        """The replica as the last tokens of a subject."""
        return f"{self.job}.{self.attempt}.{self.role}.{self.index}"


@dataclass(frozen=True, slots=True, order=True)
class FileRef:
    """One file of a replica; `path` is relative to the TensorBoard directory, and empty for all other files."""

    replica: ReplicaRef
    kind: Kind = "log"
    path: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a file; `end` is the file's total size where this says that the file is complete.

    `times` are pairs of an offset and the time in Unix milliseconds at which the bytes from there on were there.
    `phase` is what the replica's phase file declares; empty: no phase any more, None: nothing is told of it.
    `checkpoint` is a path below the checkpoint directory; None: nothing is told of it.
    """

    file: FileRef
    offset: int
    data: bytes = b""
    generation: int = 1
    times: Times = ()
    node: str = ""
    end: int | None = None
    phase: str | None = None
    checkpoint: str | None = None

    @property
    def stop(self) -> int:
        """Offset behind the last byte."""
        return self.offset + len(self.data)


@dataclass(frozen=True, slots=True)
class Kept:
    """Durable size of a file; with `gap`, what was sent behind it did not fit and must come again from there."""

    file: FileRef
    kept: int
    ended: bool = False
    generation: int = 1
    gap: bool = False


def partition_of(job: str) -> int:
    """Partition of a job's chunks."""
    return zlib.crc32(job.encode()) % LOG_PARTITIONS


def chunk_subject(replica: ReplicaRef) -> str:
    """Subject that carries the replica's chunks."""
    return f"tm.log.{replica.partition}.{replica.tokens}"


def chunk_headers(chunk: Chunk) -> dict[str, str]:
    """Headers of a chunk."""
    headers = {"Tm-Kind": chunk.file.kind, "Tm-Offset": str(chunk.offset)}
    if chunk.file.kind == "tb":
        headers["Tm-Path"] = _quoted(chunk.file.path)
    if chunk.generation != 1:
        headers["Tm-Generation"] = str(chunk.generation)
    if chunk.times:
        headers["Tm-Times"] = ",".join(f"{offset}:{millis}" for offset, millis in chunk.times)
    if chunk.node:
        headers["Tm-Node"] = chunk.node
    if chunk.end is not None:
        headers["Tm-End"] = str(chunk.end)
    if chunk.phase is not None:
        headers["Tm-Phase"] = chunk.phase or _NO_PHASE
    if chunk.checkpoint is not None:
        headers["Tm-Checkpoint"] = _quoted(chunk.checkpoint)
    return headers


def decode_chunk(subject: str, headers: Mapping[str, str] | None, data: bytes) -> Chunk:
    """The chunk of a message; raises MalformedChunkError with what is wrong."""
    replica, given = _replica_of(_LOG_SUBJECT, subject), headers or {}
    try:
        return Chunk(
            file=_file_of(replica, given["Tm-Kind"], _unquoted(given["Tm-Path"]) if "Tm-Path" in given else ""),
            offset=_count(given["Tm-Offset"]),
            data=data,
            generation=_count(given.get("Tm-Generation", "1"), least=1),
            times=_times_of(given.get("Tm-Times", "")),
            node=given.get("Tm-Node", ""),
            end=_count(given["Tm-End"]) if "Tm-End" in given else None,
            phase=_phase_of(given["Tm-Phase"]) if "Tm-Phase" in given else None,
            checkpoint=_checkpoint_of(_unquoted(given["Tm-Checkpoint"])) if "Tm-Checkpoint" in given else None,
        )
    except (KeyError, ValueError) as error:
        raise MalformedChunkError(f"message on {subject} is no chunk: {_why(error)}") from error


def kept_subject(replica: ReplicaRef) -> str:
    """Subject on which the replica's durable offsets are announced."""
    return f"tm.kept.{replica.tokens}"


def encode_kept(kept: Kept) -> bytes:
    """Body of an announcement."""
    document: dict[str, Any] = {"kind": kept.file.kind, "path": kept.file.path or None, "kept": kept.kept}
    document["ended"] = kept.ended
    if kept.generation != 1:
        document["generation"] = kept.generation
    if kept.gap:
        document["gap"] = True
    return json.dumps(document).encode()


def decode_kept(subject: str, body: bytes) -> Kept:
    """The announcement of a message; raises MalformedChunkError with what is wrong."""
    replica = _replica_of(_KEPT_SUBJECT, subject)
    try:
        document = json.loads(body)
        return Kept(
            file=_file_of(replica, document["kind"], document.get("path") or ""),
            kept=int(document["kept"]),
            ended=bool(document["ended"]),
            generation=int(document.get("generation", 1)),
            gap=bool(document.get("gap", False)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedChunkError(f"message on {subject} is no kept announcement: {_why(error)}") from error


def _quoted(path: str) -> str:
    return quote(path.encode("utf-8", "surrogateescape"))


def _unquoted(path: str) -> str:
    return unquote(path, errors="surrogateescape")


@lru_cache(_REPLICAS_KNOWN)
def _replica_of(pattern: re.Pattern[str], subject: str) -> ReplicaRef:
    match = pattern.fullmatch(subject)
    if match is None or int(match["attempt"]) < 1:
        raise MalformedChunkError(f"subject {subject!r} names no replica as <job>.<attempt>.<role>.<index>")
    return ReplicaRef(match["job"], int(match["attempt"]), match["role"], int(match["index"]))


def _file_of(replica: ReplicaRef, kind: str, path: str) -> FileRef:
    if kind == "log" and not path:
        return FileRef(replica)
    if kind == "use" and not path:
        return FileRef(replica, "use")
    if kind == "tb" and is_safe_path(path):
        return FileRef(replica, "tb", path)
    raise ValueError(f"kind {kind!r} with path {path[:80]!r}; log and use have none, tb has a relative one")


def is_safe_path(path: str) -> bool:
    """Whether a path stays beneath the directory that it is relative to, and may be made on any file system."""
    encoded = [part.encode("utf-8", "surrogateescape") for part in path.split("/")]
    return (
        sum(map(len, encoded)) <= _PATH_MAX_BYTES
        and "\0" not in path
        and all(0 < len(part) <= _PART_MAX_BYTES and part not in (b".", b"..") for part in encoded)
    )


def _count(text: str, least: int = 0) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 18 and int(text) >= least):
        raise ValueError(f"{text[:40]!r} is no whole number of at least {least}")
    return int(text)


def _phase_of(text: str) -> str:
    if text != _NO_PHASE and not re.fullmatch(_LABEL, text):
        raise ValueError(f"phase {text[:80]!r} is no name of a-z, 0-9 and -")
    return "" if text == _NO_PHASE else text


def _checkpoint_of(path: str) -> str:
    if not is_safe_path(path):
        raise ValueError(f"checkpoint {path[:80]!r} is no relative path")
    return path


def _times_of(text: str) -> Times:
    pairs = (pair.partition(":") for pair in text.split(",") if pair)
    return tuple((_count(offset), _count(millis)) for offset, _, millis in pairs)


def _why(error: Exception) -> str:
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
