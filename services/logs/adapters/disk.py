"""Writes that are whole: all bytes at a place, and what a crash may not lose synced with its directory."""

from __future__ import annotations

import os
from pathlib import Path


def write_at(fd: int, at: int, data: bytes) -> None:
    """Write all of the data at a position."""
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, at)
        view, at = view[written:], at + written


def write_file_at(path: Path, at: int, data: bytes) -> None:
    """Write at a position of a file, which is made where it does not exist; links are not followed."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        write_at(fd, at, data)
    finally:
        os.close(fd)


def make_directories(path: Path) -> set[Path]:
    """Make a directory with its parents; gives those whose names in them are new and not durable yet."""
    missing = [directory for directory in (path, *path.parents) if not directory.exists()]
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {directory.parent for directory in missing}


def sync_file(path: Path) -> None:
    """Make a file's content durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
