"""A backup of everything that NATS keeps for the platform: a directory with a file a stream, and `backup.json`.

It is taken while the platform works, so the streams are of slightly different moments, in an order in which none refers
to what a later one lost. Usage comes before jobs: what was billed is then on record. Jobs come before the archive that
they move to: one that moves meanwhile is in both, which readers know. What jobs refer to (catalog, secrets, code) comes
after them. The transit of logs and the lease of the scheduler are not kept; setting up makes them anew.

`backup.json` is written last, so a directory without it is no backup. A restoration first checks every file against it
and that NATS has none of the streams, and then makes them with as many replicas as are asked for.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import structlog
from nats.js.errors import NotFoundError
from pydantic import BaseModel, ConfigDict, ValidationError

from deploy.nats.snapshots import Snapshot, SnapshotError, restore, take
from shared.bus import Bus
from shared.bus.streams import (
    ARCHIVE,
    CATALOG_BUCKET,
    CODE_BUCKET,
    CREDENTIALS_BUCKET,
    DLQ,
    EVIDENCE_BUCKET,
    JOBS,
    NODES,
    REVOCATION_BUCKET,
    SECRETS_BUCKET,
    USAGE,
)
from shared.clock import rfc3339

KEPT: Final = (
    USAGE,
    NODES,
    JOBS,
    ARCHIVE,
    f"KV_{CATALOG_BUCKET}",
    f"KV_{CREDENTIALS_BUCKET}",
    f"KV_{SECRETS_BUCKET}",
    f"KV_{REVOCATION_BUCKET}",
    f"OBJ_{CODE_BUCKET}",
    f"OBJ_{EVIDENCE_BUCKET}",
    DLQ,
)
MANIFEST: Final = "backup.json"


class Kept(BaseModel):
    """One stream of a backup."""

    model_config = ConfigDict(frozen=True)

    config: dict[str, Any]
    state: dict[str, Any]
    sha256: str
    size_bytes: int


class Manifest(BaseModel):
    """What a backup holds."""

    model_config = ConfigDict(frozen=True)

    taken: str
    streams: dict[str, Kept]


@dataclass(frozen=True, slots=True)
class Backups:
    """Backups below a directory, each in one that is named by its time."""

    root: Path

    async def take(self, bus: Bus, now: datetime) -> Path:
        """A new backup; raises SnapshotError, UnavailableError."""
        taken = rfc3339(now)
        place = self.root / taken.replace(":", "-")
        try:
            place.mkdir(parents=True)
            manifest = Manifest(taken=taken, streams={stream: await _keep(bus, stream, place) for stream in KEPT})
            (place / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n")
        except OSError as error:
            raise SnapshotError(f"{place} cannot be written: {error.strerror}") from error
        return place

    def forget_all_but(self, newest: int) -> list[Path]:
        """Remove older backups, and what was begun before them and never finished; gives what was removed."""
        whole = sorted(manifest.parent for manifest in self.root.glob(f"*/{MANIFEST}"))
        if len(whole) <= newest:
            return []
        oldest_kept = whole[-newest]
        removed = [place for place in sorted(self.root.iterdir()) if place.is_dir() and place < oldest_kept]
        for place in removed:
            shutil.rmtree(place)
        return removed


async def _keep(bus: Bus, stream: str, place: Path) -> Kept:
    snapshot = await take(bus.client, stream, place / stream)
    structlog.get_logger().info("stream_backed_up", stream=stream, size_bytes=snapshot.size_bytes)
    return Kept.model_validate(snapshot, from_attributes=True)


async def restore_backup(bus: Bus, place: Path, *, replicas: int) -> None:
    """Make every stream of the backup; raises SnapshotError, UnavailableError."""
    manifest = _read(place)
    for stream, kept in manifest.streams.items():
        _check(place / stream, kept)
        await _check_missing(bus, stream)
    for stream, kept in manifest.streams.items():
        config = {**kept.config, "num_replicas": replicas}
        snapshot = Snapshot(config, kept.state, kept.sha256, kept.size_bytes)
        state = await restore(bus.client, stream, place / stream, snapshot)
        structlog.get_logger().info("stream_restored", stream=stream, messages=state["messages"])


def _read(place: Path) -> Manifest:
    try:
        return Manifest.model_validate_json((place / MANIFEST).read_bytes())
    except FileNotFoundError:
        raise SnapshotError(f"{place} is no backup: it has no {MANIFEST}{_beside(place)}") from None
    except (OSError, ValidationError, json.JSONDecodeError) as error:
        raise SnapshotError(f"{place / MANIFEST} cannot be read: {type(error).__name__}") from error


def _beside(place: Path) -> str:
    there = ", ".join(sorted(manifest.parent.name for manifest in place.glob(f"*/{MANIFEST}")))
    return f"; below it there are {there}" if there else ""


def _check(file: Path, kept: Kept) -> None:
    if not file.is_file():
        raise SnapshotError(f"{file} is missing; take another backup")
    digest = hashlib.sha256()
    for chunk in _chunks(file):
        digest.update(chunk)
    if digest.hexdigest() != kept.sha256:
        raise SnapshotError(f"{file} is not what was backed up; take another backup")


def _chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as source:
        while chunk := source.read(1 << 20):
            yield chunk


async def _check_missing(bus: Bus, stream: str) -> None:
    try:
        await bus.js.stream_info(stream)
    except NotFoundError:
        return
    raise SnapshotError(f"NATS has {stream} already; a backup is restored into one that is empty")
