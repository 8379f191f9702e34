"""Lays a job's code into a directory of its gang: from a gzipped tar file, from a directory, or from texts.

Archives come from users and are trusted in nothing: only plain files, folders, and links that stay inside are taken;
names must stay inside; links are made last, so that no file is written through one; and all limits count what is really
read, so that a small archive cannot become a large one. A directory is copied, so that a change of it while the gang
runs reaches no replica, under the same limits.
"""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final

from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import CodeArchive, CodeDirectory, CodeInline, LaidCode
from shared.documents.fields import shown
from shared.shortages import is_shortage
from shared.trees import DEPTH_MAX, remove_tree
from shared.units import GIB, KIB, MIB, format_bytes

_BLOCK: Final = 1 * MIB
_READ_MAX: Final = 4 * MIB
_HEADERS_OF_A_FILE: Final = 4 * KIB


@dataclass(frozen=True, slots=True)
class Limits:
    """What code may take on disk."""

    size_bytes: int = 4 * GIB
    files: int = 200_000


def lay_code(code: LaidCode, target: Path, limits: Limits | None = None, *, name: str = "") -> None:
    """Make the directory with the code in it, whole or not at all; nothing is done where it is there already.

    `name` is what errors call the source, where its path says little.
    """
    if target.exists():
        return
    partial = target.with_name(target.name + ".partial")
    remove_tree(partial)
    partial.mkdir()
    fill(code, partial, limits, name=name)
    partial.rename(target)


def fill(code: LaidCode, target: Path, limits: Limits | None = None, *, name: str = "") -> None:
    """Lay the code into an empty directory; what is in there after an error is of no use."""
    budget, target = _Budget(limits or Limits()), target.resolve()
    with _refusing(name or _name(code), target):
        match code:
            case CodeArchive():
                _unpack(code.path, target, budget)
            case CodeDirectory():
                _copy(code.path, target, budget)
            case CodeInline():
                _write(code.files, target)


@contextmanager
def _refusing(source: str, target: Path) -> Iterator[None]:
    """Turn every way in which the source can be bad into one sentence; what the machine lacks is not its fault."""
    try:
        yield
    except _BadCodeError as error:
        raise StartRefusedError(f"code from {source}: {error}") from None
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, OSError, ValueError, zlib.error) as error:
        if is_shortage(error):
            raise
        raise StartRefusedError(f"code from {source} cannot be laid at /code: {_reason(error, target)}") from error


def _reason(error: Exception, target: Path) -> str:
    if not (isinstance(error, OSError) and error.strerror):
        return str(error)
    name = str(error.filename or "").removeprefix(f"{target}/")
    return f"{shown(name)}: {error.strerror}" if name else error.strerror


def _name(code: LaidCode) -> str:
    match code:
        case CodeInline():
            return "the inline files"
        case CodeArchive():
            return "the archive"
        case CodeDirectory(path):
            return str(path)


class _BadCodeError(Exception):
    """What is wrong with the code, as a sentence."""


class _Budget:
    """How much may still be written."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._size_left = limits.size_bytes
        self._files_left = limits.files
        self.archive_bytes = limits.size_bytes + limits.files * _HEADERS_OF_A_FILE

    def take(self, size_bytes: int) -> None:
        """Spend one file of this size."""
        if size_bytes < 0:
            raise _BadCodeError("a header in it gives a size below zero")
        self._size_left -= size_bytes
        self._files_left -= 1
        if self._size_left < 0:
            raise _BadCodeError(f"it holds more than {format_bytes(self._limits.size_bytes)}, the most accepted")
        if self._files_left < 0:
            raise _BadCodeError(f"it holds more than {self._limits.files} files, the most accepted")


class _Metered:
    """The decompressed archive, refused once more is asked of it than an acceptable one has.

    `tarfile` reads a header's extension at once, whatever size it claims, hence the limit of a single read.
    """

    def __init__(self, stream: gzip.GzipFile, most_bytes: int) -> None:
        self._stream = stream
        self._most_bytes = most_bytes
        self.tell = stream.tell

    def read(self, size: int) -> bytes:
        if size > _READ_MAX or self.tell() + size > self._most_bytes:
            raise _BadCodeError("it unpacks to more than is accepted")
        return self._stream.read(size)

    def seek(self, position: int) -> int:
        if position > self._most_bytes:
            raise _BadCodeError("it unpacks to more than is accepted")
        return self._stream.seek(position)


def _unpack(archive: Path, target: Path, budget: _Budget) -> None:
    links: list[tuple[Path, str]] = []
    with gzip.open(archive) as stream, _open_tar(_Metered(stream, budget.archive_bytes)) as tar:
        for member in tar:
            budget.take(member.size)
            path = target / _inside(member.name)
            if member.isdir():
                path.mkdir(parents=True, exist_ok=True)
            elif member.issym():
                links.append((path, member.linkname))
            elif member.isreg() and not member.issparse():
                _save(tar.extractfile(member), path, member.mode)
            else:
                raise _BadCodeError(f"{member.name!r} is neither file nor folder nor symbolic link; leave it out")
    for path, link in links:
        _link(path, link, target)


def _open_tar(stream: _Metered) -> tarfile.TarFile:
    return tarfile.open(fileobj=stream, mode="r:")  # type: ignore[call-overload, no-any-return]  # all it calls is there


def _save(content: IO[bytes] | None, path: Path, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with path.open("xb") as file:
        if content is not None:
            shutil.copyfileobj(content, file, _BLOCK)
    path.chmod(0o755 if mode & stat.S_IXUSR else 0o644)


def _link(path: Path, link: str, root: Path) -> None:
    leads_to = os.path.normpath(path.parent / link)
    if link.startswith("/") or not Path(leads_to).is_relative_to(root):
        raise _BadCodeError(f"the link {path.relative_to(root)} leads to {link}, out of the code; leave it out")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.parent.resolve() != path.parent:
        raise _BadCodeError(f"{path.relative_to(root)} lies behind a link; leave it out")
    path.unlink(missing_ok=True)
    path.symlink_to(link)


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise _BadCodeError(f"{name!r} lies outside of the code; names must be relative and without ..")
    return _not_too_deep(path)


def _not_too_deep(path: PurePosixPath) -> PurePosixPath:
    if len(path.parts) > DEPTH_MAX:
        raise _BadCodeError(f"it has folders more than {DEPTH_MAX} deep in each other")
    return path


def _copy(source: Path, target: Path, budget: _Budget) -> None:
    """Copy a folder by descriptors alone, so that nobody can turn a part of it into a link while it is copied."""
    if not source.is_dir():
        raise _BadCodeError("there is no such folder on this machine")
    top = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder, folders, names, at in os.fwalk(".", dir_fd=top, follow_symlinks=False):
            _not_too_deep(PurePosixPath(folder))
            for name in (*folders, *names):
                _copy_entry(name, at, target / folder / name, budget)
    finally:
        os.close(top)


def _copy_entry(name: str, at: int, target: Path, budget: _Budget) -> None:
    """One entry of an open folder; sockets, pipes and devices are left out."""
    try:
        found = os.stat(name, dir_fd=at, follow_symlinks=False)
        budget.take(found.st_size if stat.S_ISREG(found.st_mode) else 0)
        if stat.S_ISDIR(found.st_mode):
            target.mkdir(exist_ok=True)
        elif stat.S_ISLNK(found.st_mode):
            target.symlink_to(os.readlink(name, dir_fd=at))
        elif stat.S_ISREG(found.st_mode):
            _copy_file(name, at, target)
    except OSError as error:
        if is_shortage(error):
            raise
        raise _BadCodeError(f"{target.name} cannot be copied: {error.strerror}") from error


def _copy_file(name: str, at: int, target: Path) -> None:
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    with os.fdopen(fd, "rb") as content:
        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode):
            _save(content, target, mode)


def _write(files: Mapping[str, str], target: Path) -> None:
    for name, text in files.items():
        path = target / _inside(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
