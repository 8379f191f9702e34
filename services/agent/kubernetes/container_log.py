"""The log files of one container, in the order in which they were written, whatever the kubelet does to them meanwhile.

The runtime writes `<restarts>.log`. When that is large the kubelet renames it to `<restarts>.log.<time>` and has a new
one opened; later it packs what was renamed (`.gz`) and removes the oldest. So names say nothing for long. A file is
told by its head, the begin of its first entry, which is the same after renaming and packing; and within one life of the
agent by its inode, so that no file is opened twice.

`look` opens every file that is new, in order, and from then on its content is safe: it can be read to its end after it
was renamed, packed or removed. A file that is behind what is being read, or is its packed twin, is left alone. Where
nothing that is there was ever seen before, although something was read already, files in between may have been removed:
then `missed` is true once.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from services.agent.kubernetes.cri import HEAD_BYTES, head_of
from services.agent.source import open_beneath

Inode = tuple[int, int]

_NAME: Final = re.compile(r"(\d+)\.log(?:\.(\d{8}-\d{6})(\.gz)?)?")
_LIVE: Final = "~"
"""Sorts behind every time."""


class _Reader(Protocol):
    is_broken: bool

    def read(self, offset: int, length: int) -> bytes: ...

    def close(self) -> None: ...


class _Plain:
    """A file that may grow."""

    is_broken = False

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def read(self, offset: int, length: int) -> bytes:
        return os.pread(self._fd, length, offset)

    def close(self) -> None:
        os.close(self._fd)


class _Packed:
    """A packed file; it is read forwards, so that going on costs nothing."""

    def __init__(self, fd: int) -> None:
        self._file = gzip.open(os.fdopen(fd, "rb"))  # noqa: SIM115  # it is closed with this
        self.is_broken = False

    def read(self, offset: int, length: int) -> bytes:
        try:
            self._file.seek(offset)
            return self._file.read(length)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self.is_broken = True
            return b""

    def close(self) -> None:
        self._file.close()


class LogFile:
    """An open log file; `packed` ones do not grow any more."""

    def __init__(self, reader: _Reader, *, packed: bool) -> None:
        self._reader = reader
        self.packed = packed
        self._head = b""

    @property
    def head(self) -> bytes:
        """What it is told by; empty while too little is there."""
        self._head = self._head or head_of(self._reader.read(0, HEAD_BYTES))
        return self._head

    @property
    def is_broken(self) -> bool:
        """Whether the rest of it cannot be unpacked."""
        return self._reader.is_broken

    def read(self, offset: int, length: int) -> bytes:
        """Bytes at an offset of what the runtime wrote; fewer where there are no more."""
        return self._reader.read(offset, length)

    def close(self) -> None:
        """Let go of it."""
        self._reader.close()


@dataclass(frozen=True, slots=True, order=True)
class _Listed:
    """A name in the directory, in the order of time."""

    restarts: int
    rotated: str
    packed: bool
    name: str
    inode: Inode


class ContainerLog:
    """The directory of one container's logs; `read_to` is the head of the file that was being read at last."""

    def __init__(self, directory: Path, read_to: bytes = b"") -> None:
        self.directory = directory
        self.files: deque[LogFile] = deque()
        """What is to be read: first the present file, then those that were written after it."""
        self.missed = False
        self.lost = read_to
        """Head of the file that was being read in an earlier life, until it is found again."""
        self._heads = {read_to} if read_to else set()
        self._packed: set[str] = set()
        self._plain: dict[Inode, LogFile] = {}

    def look(self) -> None:
        """Open what is new, and let go of what is read and removed; raises OSError where something is not for us."""
        listed = _listing(self.directory)
        self._heads.update(file.head for file in self.files if file.head)
        is_known, is_first = False, not self._heads
        new: list[LogFile] = []
        for each in listed:
            file = self._opened(each)
            if file is None:
                is_known = True
            elif self.lost and file.head == self.lost:
                self._pass_over(new)
                new, self.lost, is_known = [file], b"", True
            elif file.head in self._heads:
                is_known = True
                self._pass_over([file])
            else:
                new.append(file)
        self.missed = self.missed or (bool(new) and not (is_known or is_first))
        self.files.extend(new)
        self._release({each.inode for each in listed})

    def finish_first(self) -> None:
        """The present file is read to its end."""
        self.missed = self.missed or self.files[0].is_broken
        self._pass_over([self.files.popleft()])

    def close(self) -> None:
        """Let go of all files."""
        for file in (*self._plain.values(), *(file for file in self.files if file.packed)):
            file.close()
        self.files.clear()
        self._plain.clear()

    def _opened(self, listed: _Listed) -> LogFile | None:
        """The file, where it is new; one that is gone again is none."""
        if listed.inode in self._plain or listed.name in self._packed:
            return None
        fd = open_beneath(self.directory, listed.name)
        if fd is None:
            path = self.directory / listed.name
            if path.exists():
                raise PermissionError(f"{path} is no regular file, or may not be read")
            return None
        if _inode(os.fstat(fd)) != listed.inode:  # renamed just now; the next look finds both
            os.close(fd)
            return None
        if listed.packed:
            self._packed.add(listed.name)
            return LogFile(_Packed(fd), packed=True)
        file = self._plain[listed.inode] = LogFile(_Plain(fd), packed=False)
        return file

    def _pass_over(self, files: Iterable[LogFile]) -> None:
        """These are not read any more; plain ones stay open, see `_release`."""
        for file in files:
            if file.head:
                self._heads.add(file.head)
            if file.packed:
                file.close()

    def _release(self, listed: set[Inode]) -> None:
        """Files stay open while they have a name, so that no new file can have the inode of one that is known."""
        for inode in self._plain.keys() - listed:
            if self._plain[inode] not in self.files:
                self._plain.pop(inode).close()


def _listing(directory: Path) -> list[_Listed]:
    """The log files in the order in which they were written; none where there is no directory."""
    found = []
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            named = _NAME.fullmatch(entry.name)
            if named is not None:
                with suppress(OSError):
                    state = entry.stat(follow_symlinks=False)
                    found.append(_Listed(int(named[1]), named[2] or _LIVE, bool(named[3]), entry.name, _inode(state)))
    return sorted(found)


def _inode(state: os.stat_result) -> Inode:
    return state.st_dev, state.st_ino
