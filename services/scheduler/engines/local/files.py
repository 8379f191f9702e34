"""Files as this engine uses them: written whole or not at all, locked by open descriptors.

A lock is a `flock`: it belongs to an open file description, so it is handed to a child with the descriptor and is free
as soon as the last process that has it is gone, however that process ended.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def write_atomic(path: Path, text: str) -> None:
    """Give the file this content at once, as far as anybody who looks can tell."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def sync(path: Path) -> None:
    """Wait until a file's content, or the names in a directory, would survive a loss of power."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_in_place(path: Path, text: str) -> None:
    """Give the file this content without giving it a new inode, for readers that hold a descriptor."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def read_text(path: Path) -> str:
    """Content of a small file; empty where there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def try_lock(path: Path) -> int | None:
    """Descriptor that holds the lock, or None where somebody else has it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd
