"""Records on a mount at `s3://`: its event files, brought to this machine for a board, and again when they have grown.

What a job writes there is in the object store when its attempt has ended (or at once, where a cluster mounts the store
itself). Files are fetched whole and put in place by a rename, so TensorBoard never sees a part of one; one whose size
is the same is not fetched again, since event files only grow. An object store that is away later takes nothing away
from a board. What was fetched goes some minutes after the board.
"""

from __future__ import annotations

import shutil
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from services.logs.adapters.fetching import fetch
from services.logs.ports import Archive
from services.logs.tensorboard.mounts import MountPath, wrong
from shared.catalog.fields import S3_SCHEME, bucket_and_key
from shared.clock import Clock
from shared.errors import InvalidInputError, UnavailableError
from shared.logs_wire import EVENT_FILE_MARK, is_safe_path
from shared.units import MIB

FILES_MAX: Final = 2_000
BYTES_MAX: Final = 2048 * MIB
LOOK_AGAIN: Final = timedelta(seconds=60)
UNUSED: Final = timedelta(minutes=10)

OpenBucket = Callable[[str, str], Archive]
"""Opens a bucket by its name and what all keys in it begin with."""


def is_in_objects(place: MountPath) -> bool:
    """Whether the mount is at an object store."""
    return place.mount.uri.startswith(S3_SCHEME)


class ObjectRecords:
    """Event files from the object store, by board; without a way to open buckets it refuses."""

    def __init__(self, directory: Path, open_bucket: OpenBucket | None, clock: Clock) -> None:
        self._directory = directory
        self._open = open_bucket
        self._clock = clock
        self._looked_at: dict[str, datetime] = {}
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        shutil.rmtree(directory, ignore_errors=True)

    def bring(self, board: str, place: MountPath) -> Path:
        """The directory with the event files of this place; raises InvalidInputError, UnavailableError. Takes long."""
        directory = self._directory / board
        with self._turns[board]:
            now, looked_at = self._clock.now(), self._looked_at.get(board)
            if looked_at is None or now - looked_at >= LOOK_AGAIN:
                try:
                    self._fetch(directory, place)
                except (InvalidInputError, UnavailableError):
                    if looked_at is None:
                        raise
                self._looked_at[board] = now
        return directory

    def forget_unused(self, running: Iterable[str]) -> None:
        """Remove what was fetched some time ago for boards that do not run."""
        latest = self._clock.now() - UNUSED
        for board in [board for board, at in self._looked_at.items() if at < latest and board not in set(running)]:
            del self._looked_at[board]
            shutil.rmtree(self._directory / board, ignore_errors=True)

    def _fetch(self, directory: Path, place: MountPath) -> None:
        if self._open is None:
            raise UnavailableError(
                f"the mount at {place.mount.mount_path} is at s3://, of which this platform has no key; what the job "
                "wrote below its spec.tensorboard.logDir is kept by the platform and shown without --dir"
            )
        bucket, key = bucket_and_key(place.mount.uri)
        store = self._open(bucket, "/".join(part for part in (key.strip("/"), place.rest) if part))
        found = [(name, size) for name, size in store.names("") if EVENT_FILE_MARK in name.rpartition("/")[2]]
        _check(place, found)
        for name, size in found:
            if is_safe_path(name):
                _bring_one(store, name, size, directory / name)


def _check(place: MountPath, found: list[tuple[str, int]]) -> None:
    if not found:
        raise wrong(
            "not-found",
            f"there are no event files below {place.shown} in the object store now; on one machine what a running "
            "attempt writes comes there after its end",
        )
    total = sum(size for _, size in found)
    if len(found) > FILES_MAX or total > BYTES_MAX:
        raise wrong(
            "too-much",
            f"there are {len(found)} event files of {total // MIB} MiB below {place.shown}; TensorBoard is given at "
            f"most {FILES_MAX} of {BYTES_MAX // MIB} MiB; name a directory further down",
        )


def _bring_one(store: Archive, name: str, size: int, path: Path) -> None:
    if path.is_file() and path.stat().st_size == size:
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fetch(store, name, size, path)
