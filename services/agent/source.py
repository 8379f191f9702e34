"""Files on disk that other processes write: opened without ever following a link, looked at, read at an offset.

What a user's code puts where event files are expected is not trusted: links are not followed, not even for a directory
on the way, and only regular files are opened, so that nothing outside of the directory can be shipped. An open file
stays open when its path is given to another file, so that the rest of the old one can still be read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from services.agent.domain.tail import Look

_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Source:
    """A file beneath a directory; it may not exist yet, and may be replaced at any time."""

    def __init__(self, root: Path, path: str) -> None:
        self._root = root
        self._path = path
        self._fd: int | None = None
        self._identity: tuple[int, int] | None = None

    def look(self, *, check_path: bool = False) -> Look | None:
        """Size and time of modification; None while there is no such file. `check_path`: is the path another's now?"""
        if self._fd is None and not self._open():
            return None
        assert self._fd is not None  # noqa: S101  # for the type checker
        found = os.fstat(self._fd)
        return Look(found.st_size, found.st_mtime_ns // 1_000_000, replaced=check_path and self._is_replaced())

    def read(self, offset: int, length: int) -> bytes:
        """Bytes at an offset; fewer where the file ends before."""
        return os.pread(self._fd, length, offset) if self._fd is not None and length > 0 else b""

    def close(self) -> None:
        """Let go of the open file; the next look opens what the path names then."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> bool:
        fd = open_beneath(self._root, self._path)
        if fd is None:
            return False
        found = os.fstat(fd)
        self._fd, self._identity = fd, (found.st_dev, found.st_ino)
        return True

    def _is_replaced(self) -> bool:
        fd = open_beneath(self._root, self._path)
        if fd is None:
            return False
        found = os.fstat(fd)
        os.close(fd)
        return (found.st_dev, found.st_ino) != self._identity


def open_beneath(root: Path, path: str) -> int | None:
    """Descriptor of a regular file at a relative path without links; None where there is none."""
    directory, _, name = path.rpartition("/")
    at = _open_directory(root, directory)
    if at is None:
        return None
    try:
        return _open_regular(at, name)
    except OSError:
        return None
    finally:
        os.close(at)


def open_fifo_beneath(root: Path, path: str) -> int | None:
    """Descriptor for writing into a named pipe at a relative path without links; None where nobody reads from one."""
    directory, _, name = path.rpartition("/")
    at = _open_directory(root, directory)
    if at is None:
        return None
    try:
        fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    except OSError:
        return None
    finally:
        os.close(at)
    if stat.S_ISFIFO(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def is_directory_beneath(root: Path, path: str) -> bool:
    """Whether there is a directory at a relative path without links."""
    at = _open_directory(root, path)
    if at is not None:
        os.close(at)
    return at is not None


def _open_directory(root: Path, path: str) -> int | None:
    """Descriptor of the directory at a relative path; the root itself may be a link."""
    try:
        at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    for part in (part for part in path.split("/") if part not in ("", ".")):
        above = at
        try:
            at = os.open(part, _DIRECTORY_FLAGS, dir_fd=above)
        except OSError:
            return None
        finally:
            os.close(above)
    return at


def _open_regular(at: int, name: str) -> int | None:
    fd = os.open(name, _FILE_FLAGS, dir_fd=at)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None
