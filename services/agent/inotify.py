"""Being woken when something happens in a directory, through Linux's inotify by way of the C library.

Wake-ups are hints that make the agent quick and its rest cheap, no more: what is true is always read from the files,
and the agent looks by itself now and then. Where inotify is not to be had (its limits are reached, another system) the
hints just do not come, and `available` tells the agent to look more often.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_NONBLOCK_CLOEXEC: Final = os.O_NONBLOCK | os.O_CLOEXEC
_MODIFIED: Final = 0x002
_MOVED_TO: Final = 0x080
_CREATED: Final = 0x100
_DELETED: Final = 0x200
_ONLY_DIRECTORY: Final = 0x01000000
_MASK: Final = _MODIFIED | _MOVED_TO | _CREATED | _DELETED | _ONLY_DIRECTORY
_DRAIN_BYTES: Final = 64 * 1024
_EVENT: Final = struct.Struct("iIII")


class Inotify:
    """Directories being watched; `fd` is readable when something happened in one of them."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = self._libc.inotify_init1(_NONBLOCK_CLOEXEC) if hasattr(self._libc, "inotify_init1") else -1
        self._watches: dict[Path, int] = {}

    @property
    def available(self) -> bool:
        """Whether wake-ups can be relied on."""
        return self.fd >= 0

    def watch(self, directories: set[Path]) -> None:
        """Watch these directories and no others."""
        for gone in self._watches.keys() - directories:
            self._libc.inotify_rm_watch(self.fd, self._watches.pop(gone))
        for new in directories - self._watches.keys():
            watch = self._libc.inotify_add_watch(self.fd, os.fsencode(new), _MASK) if self.available else -1
            if watch >= 0:
                self._watches[new] = watch
            elif self.available and new.is_dir():
                self.close()

    def drain(self) -> bool:
        """Forget what happened so far; gives whether files came or went, where content changed otherwise."""
        structural = False
        with suppress(BlockingIOError):
            while events := os.read(self.fd, _DRAIN_BYTES):
                structural = structural or any(mask & ~_MODIFIED for mask in _masks(events))
        return structural

    def wake_once(self, woken: asyncio.Event) -> None:
        """Set the event at the next change, once: a busy log would wake the loop at each of its writes."""
        if not self.available:
            return
        loop, fd = asyncio.get_running_loop(), self.fd

        def on_change() -> None:
            loop.remove_reader(fd)
            woken.set()

        loop.add_reader(fd, on_change)

    def close(self) -> None:
        """Watch nothing any more."""
        if self.available:
            os.close(self.fd)
            self.fd = -1


def _masks(events: bytes) -> Iterator[int]:
    at = 0
    while at < len(events):
        _, mask, _, name_bytes = _EVENT.unpack_from(events, at)
        yield mask
        at += _EVENT.size + name_bytes
