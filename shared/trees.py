"""Folders that user code has filled: removed and listed whatever is in them.

A program in a sandbox may leave folders without rights, or thousands of folders in each other, far deeper than a path
can be long or a function can call itself. So nothing here goes down by recursion. Removing lifts every folder that is
found in a folder to the top first, so that two open folders are enough for any depth, and no link is followed.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

# Of what is copied or unpacked by going down: far more than code has, far less than what a path has room for.
DEPTH_MAX: Final = 200
_TAKEN: Final = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)


def remove_tree(path: Path) -> None:
    """Remove a folder with everything in it, as far as this process may; nothing outside of it is touched."""
    with suppress(OSError):
        top = _opened(str(path), None)
        try:
            _empty(top)
        finally:
            os.close(top)
        path.rmdir()


def files_below(top: Path) -> Iterator[Path]:
    """Everything below a folder that is no folder itself; no link is followed, and what cannot be read is left out."""
    folders = [str(top)]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    yield Path(entry.path)


def _opened(path: str, within: int | None) -> int:
    """Descriptor of a folder, which everything is allowed in from now on."""
    place = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    try:
        folder = f"/proc/self/fd/{place}"
        Path(folder).chmod(0o700)
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(place)


def _empty(top: int) -> None:
    stuck: set[str] = set()
    spare = (f".lifted-{number}" for number in itertools.count())
    while names := [name for name in os.listdir(top) if name not in stuck]:
        for name in names:
            try:
                _remove(top, name, spare)
            except FileNotFoundError:
                continue  # a folder that was lifted has taken the name of an empty one
            except OSError:
                stuck.add(name)


def _remove(top: int, name: str, spare: Iterator[str]) -> None:
    try:
        os.unlink(name, dir_fd=top)
    except IsADirectoryError:
        folder = _opened(name, top)
        try:
            for inner in os.listdir(folder):  # noqa: PTH208  # a descriptor is no path
                _unlink_or_lift(folder, inner, top, spare)
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=top)


def _unlink_or_lift(folder: int, name: str, top: int, spare: Iterator[str]) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        os.close(_opened(name, folder))  # without rights in itself a folder cannot be moved
        _lift(folder, name, top, spare)


def _lift(folder: int, name: str, top: int, spare: Iterator[str]) -> None:
    for new in spare:
        try:
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=top)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
        else:
            return
