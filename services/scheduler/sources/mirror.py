"""One mount's share of a bucket as a directory: laid before the start of a gang, saved after its end.

    <index>/          what the replicas see
    <index>.part/     files on their way; a file is moved from here when it is complete
    <index>.files     what every file was when all of them were there, or was saved
    <index>.json      the seal, written last: everything is there, and where it came from
    <index>.saved     what the replicas changed is in the bucket
    <index>.failed    why that could not be done

Laying continues where it was interrupted: a file with the size and time of its object is complete. A file whose size,
time or inode differs from what is noted was written by the job; saving uploads those, each as a whole, so that it can
be repeated after an interruption, and notes what it has done. Nothing is ever deleted in a bucket, and only plain files
are read: a link that a job made could lead anywhere.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import stat
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter

from services.scheduler.sources.object_store import Bucket, Found, ObjectGoneError, StoreError
from shared.trees import files_below
from shared.units import format_bytes

AT_ONCE: Final = 8
FILES_MAX: Final = 500_000
SPARE_BYTES: Final = 512 << 20

T = TypeVar("T")
FileState = tuple[int, int, int, int]


class MirrorError(Exception):
    """What stands in the bucket cannot be had as files here, in a sentence."""


class Seal(BaseModel):
    """Content of `<index>.json`."""

    model_config = ConfigDict(frozen=True)

    uri: str
    read_only: bool


_FILES: Final = TypeAdapter(dict[str, FileState])


@dataclass(slots=True)
class Progress:
    """How far a gang's data is."""

    doing: str
    total_bytes: int = 0
    done_bytes: int = 0

    def advance(self, size_bytes: int) -> None:
        """So much more is done."""
        self.done_bytes += size_bytes

    def __str__(self) -> str:
        if not self.total_bytes:
            return f"{self.doing} data"
        return f"{self.doing} {format_bytes(self.done_bytes)} of {format_bytes(self.total_bytes)} of data"


@dataclass(frozen=True, slots=True)
class Plan:
    """What there is to lay."""

    files: tuple[Found, ...]
    folders: tuple[str, ...] = field(default=())

    @property
    def size_bytes(self) -> int:
        """Size of all files."""
        return sum(each.size_bytes for each in self.files)


def plan_of(found: Iterable[Found]) -> Plan:
    """Objects as files and folders; raises MirrorError where they cannot be.

    Consoles make empty objects to stand for folders; they are told by what lies below them.
    """
    by_path = {each.path: each for each in found}
    if len(by_path) > FILES_MAX:
        raise MirrorError(f"there are more than {FILES_MAX} objects; name a subPath with fewer")
    parents = {str(parent) for path in by_path for parent in PurePosixPath(path).parents} - {"."}
    clash = next((path for path in sorted(parents) if path in by_path and by_path[path].size_bytes), None)
    if clash is not None:
        raise MirrorError(f"{clash!r} is an object, and others lie below it; no file system can have both")
    too_long = next((path for path in by_path if any(len(part.encode()) > 255 for part in path.split("/"))), None)
    if too_long is not None:
        raise MirrorError(f"{too_long[:80]!r} is longer than a file name may be")
    return Plan(tuple(each for path, each in by_path.items() if path and path not in parents), tuple(sorted(parents)))


class Mirror:
    """The directory of one mount."""

    def __init__(self, directory: Path, index: int) -> None:
        self.directory = directory / str(index)
        self._parts = directory / f"{index}.part"
        self._seal = directory / f"{index}.json"
        self._noted = directory / f"{index}.files"
        self._saved = directory / f"{index}.saved"
        self._failed = directory / f"{index}.failed"
        self._numbers = itertools.count()

    @property
    def is_laid(self) -> bool:
        """Whether everything is there."""
        return self._seal.exists()

    @property
    def is_unsaved(self) -> bool:
        """Whether the job may have written what is not in the bucket, and nobody has given up on it."""
        if not self.is_laid or self._saved.exists() or self._failed.exists():
            return False
        return not self._read_seal().read_only

    @property
    def uri(self) -> str:
        """Where what is laid came from."""
        return self._read_seal().uri

    @property
    def problem(self) -> str:
        """Why what the job wrote could not be saved; empty where that did not happen."""
        return self._failed.read_text() if self._failed.exists() else ""

    def give_up(self, problem: str) -> None:
        """Note that what the job wrote will not be saved."""
        self._failed.write_text(problem)

    async def lay(self, bucket: Bucket, plan: Plan, uri: str, progress: Progress, *, read_only: bool) -> None:
        """Bring every object here; raises StoreError, MirrorError, OSError."""
        await asyncio.to_thread(self._make_room, plan)
        await _at_once(plan.files, lambda found: self._bring(bucket, found, progress))
        await asyncio.to_thread(self._finish, uri, read_only=read_only)

    async def save(self, bucket: Bucket, progress: Progress) -> None:
        """Bring everything that was written into the bucket; raises StoreError."""
        noted = await asyncio.to_thread(self._read_noted)
        changed = await asyncio.to_thread(lambda: dict(self._changed(noted)))
        progress.total_bytes += sum(size_bytes for size_bytes, *_ in changed.values())
        failures: dict[str, StoreError | OSError] = {}

        async def send(path: str) -> None:
            try:
                await self._send(bucket, path, progress)
            except (StoreError, OSError) as error:
                failures[path] = error

        await _at_once(changed, send)
        sent = {path: state for path, state in changed.items() if path not in failures}
        await asyncio.to_thread(self._note, noted | sent)
        if failures:
            path, error = next(iter(failures.items()))
            raise StoreError(f"{len(failures)} of {len(changed)} files could not be saved; {path}: {error}")
        self._saved.touch()

    def _make_room(self, plan: Plan) -> None:
        shutil.rmtree(self._parts, ignore_errors=True)
        for folder in (self.directory, self._parts):
            folder.mkdir(parents=True, exist_ok=True)
        wanted = {each.path for each in plan.files}
        for path, _ in list(self._files()):
            if path not in wanted:  # its object was deleted since an earlier try brought it
                (self.directory / path).unlink()
        needed = plan.size_bytes - sum(each.size_bytes for each in plan.files if self._has(each))
        free = shutil.disk_usage(self.directory).free
        if needed + SPARE_BYTES > free:
            raise MirrorError(f"{format_bytes(needed)} are needed here, and {format_bytes(free)} are free")
        for name in plan.folders:
            (self.directory / name).mkdir(parents=True, exist_ok=True)

    def _has(self, found: Found) -> bool:
        try:
            here = (self.directory / found.path).lstat()
        except OSError:
            return False
        return stat.S_ISREG(here.st_mode) and (here.st_size, here.st_mtime_ns) == (found.size_bytes, found.modified_ns)

    async def _bring(self, bucket: Bucket, found: Found, progress: Progress) -> None:
        target, part = self.directory / found.path, self._parts / str(next(self._numbers))
        if await asyncio.to_thread(self._has, found):
            progress.advance(found.size_bytes)
            return
        try:
            with part.open("wb") as file:
                await bucket.download(found.path, file, progress.advance)
        except ObjectGoneError:
            # A folder that somebody made in a console is listed without the slash that its key ends with.
            if found.size_bytes:
                raise
            target.mkdir(exist_ok=True)
            return
        os.utime(part, ns=(found.modified_ns, found.modified_ns))
        part.replace(target)

    def _finish(self, uri: str, *, read_only: bool) -> None:
        shutil.rmtree(self._parts, ignore_errors=True)
        self._note(dict(self._files()))
        _write_durably(self._seal, Seal(uri=uri, read_only=read_only).model_dump_json().encode())

    def _note(self, files: dict[str, FileState]) -> None:
        _write_durably(self._noted, _FILES.dump_json(files))

    def _read_seal(self) -> Seal:
        return Seal.model_validate_json(self._seal.read_bytes())

    def _read_noted(self) -> dict[str, FileState]:
        return _FILES.validate_json(self._noted.read_bytes())

    def _changed(self, noted: Mapping[str, FileState]) -> Iterator[tuple[str, FileState]]:
        return (each for each in self._files() if noted.get(each[0]) != each[1])

    def _files(self) -> Iterator[tuple[str, FileState]]:
        """Every plain file by its path; no link is followed, and names that are no text are left out."""
        for path in files_below(self.directory):
            here = path.lstat()
            relative = str(path.relative_to(self.directory))
            if stat.S_ISREG(here.st_mode) and relative.isprintable():
                yield relative, (here.st_size, here.st_mtime_ns, here.st_ctime_ns, here.st_ino)

    async def _send(self, bucket: Bucket, path: str, progress: Progress) -> None:
        fd = os.open(self.directory / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            await bucket.upload(file, path)
            progress.advance(os.fstat(fd).st_size)


async def _at_once(items: Iterable[T], work: Callable[[T], Awaitable[None]]) -> None:
    """Work on some of the items at once; the first failure ends the others."""
    left = iter(items)

    async def worker() -> None:
        for item in left:
            await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(worker())
    except* (StoreError, MirrorError, OSError) as failures:
        raise _first(failures) from None


def _first(failures: BaseExceptionGroup[Exception]) -> Exception:
    found: BaseException = failures
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found if isinstance(found, Exception) else StoreError(str(found))


def _write_durably(path: Path, content: bytes) -> None:
    partial = path.with_name(f"{path.name}.new")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
