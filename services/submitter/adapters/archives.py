"""Looks an uploaded archive through before it is kept, so that a bad one is the uploader's error and not the job's.

An archive is hostile until it is read: it may hold devices, paths that leave the folder, a few kilobytes that unpack to
terabytes, or a header that claims to be gigabytes long. Members are only listed, never unpacked, and the reader gives
at most a mebibyte at once and a fixed amount in all.
"""

from __future__ import annotations

import gzip
import posixpath
import tarfile
import zlib
from pathlib import PurePosixPath
from typing import IO, Final, cast

from shared.documents.fields import shown
from shared.errors import InvalidInputError, Violation
from shared.trees import DEPTH_MAX
from shared.units import GIB, MIB, format_bytes

UNPACKED_MAX_BYTES: Final = 2 * GIB
FILES_MAX: Final = 100_000
_READ_MAX_BYTES: Final = MIB


def check_archive(file: IO[bytes]) -> None:
    """Raise InvalidInputError where the file is no harmless tar.gz; its position is put back to the beginning."""
    try:
        with (
            gzip.GzipFile(fileobj=file, mode="rb") as plain,
            tarfile.open(fileobj=_bounded(plain), mode="r:") as archive,
        ):
            _check_members(archive)
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise _invalid("archive-unreadable", f"this is no gzipped tar file that can be read: {reason}") from None
    finally:
        file.seek(0)


class _BoundedReader:
    """A file that refuses long reads and to go on for ever."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _READ_MAX_BYTES:
            raise ValueError("a header in it is longer than a mebibyte")
        return self._file.read(size)

    def seek(self, position: int, whence: int = 0) -> int:
        if whence == 0 and position > UNPACKED_MAX_BYTES:
            raise ValueError(f"it unpacks to more than {format_bytes(UNPACKED_MAX_BYTES)}")
        return self._file.seek(position, whence)

    def tell(self) -> int:
        return self._file.tell()


def _bounded(file: gzip.GzipFile) -> IO[bytes]:
    return cast("IO[bytes]", _BoundedReader(file))


def _check_members(archive: tarfile.TarFile) -> None:
    for count, member in enumerate(archive, start=1):
        if count > FILES_MAX:
            raise _invalid("archive-too-large", f"it has more than {FILES_MAX} files; leave some out with .gitignore")
        _check_member(member)


def _check_member(member: tarfile.TarInfo) -> None:
    if member.size < 0:
        # The reader would go back in the file by as much, and read it again and again.
        raise _invalid("archive-member", f"{shown(member.name)} has a size below zero")
    if not (member.isreg() or member.isdir() or member.issym()):
        raise _invalid("archive-member", f"{shown(member.name)} is neither a file, a folder nor a symbolic link")
    if len(PurePosixPath(member.name).parts) > DEPTH_MAX:
        raise _invalid("archive-member", f"{shown(member.name)} lies more than {DEPTH_MAX} folders deep")
    if _leaves(member.name):
        raise _invalid("archive-member", f"{shown(member.name)} would lie outside of the folder")
    if member.issym() and _leaves(posixpath.join(posixpath.dirname(member.name), member.linkname)):
        raise _invalid("archive-member", f"the link {shown(member.name)} leads out of the folder")


def _leaves(path: str) -> bool:
    return path.startswith("/") or posixpath.normpath(path).split("/")[0] == ".."


def _invalid(code: str, sentence: str) -> InvalidInputError:
    return InvalidInputError((Violation("", code, sentence),))
