"""Gives back the disk space of what is kept: the node's disk holds each log twice otherwise, the kubelet's and ours.

The begin of a log is freed in place (a hole), so that every offset stays what it is. `MARGIN_BYTES` before what is kept
stay, since the last bytes that were published are compared; and only what was kept a pass ago is freed, since by then
that is remembered on disk. Where a file system has no holes the space is used until the log is removed.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from pathlib import Path
from typing import Final

from services.agent.gangs import Gangs
from services.agent.replica import Replica

PASS_S: Final = 10.0
MARGIN_BYTES: Final = 1 << 20
_KEEP_SIZE_PUNCH_HOLE: Final = 0x01 | 0x02


class Freeing:
    """Frees parts of logs until cancelled."""

    def __init__(self, gangs: Gangs) -> None:
        self._gangs = gangs
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._kept: dict[Path, int] = {}
        self._freed: dict[Path, int] = {}

    async def run(self) -> None:
        """Pass after pass."""
        while True:
            self.make_pass()
            await asyncio.sleep(PASS_S)

    def make_pass(self) -> None:
        """Free what was kept a pass ago."""
        replicas = [each for each in self._gangs.replicas.values() if each.log.tail.generation == 1]
        present = {replica.directory for replica in replicas}
        self._freed = {path: stop for path, stop in self._freed.items() if path in present}
        for replica in replicas:
            self._free(replica, self._kept.get(replica.directory, 0))
        self._kept = {replica.directory: replica.log.tail.offsets.kept for replica in replicas}

    def _free(self, replica: Replica, kept: int) -> None:
        start, stop = self._freed.get(replica.directory, 0), kept // MARGIN_BYTES * MARGIN_BYTES - MARGIN_BYTES
        if stop > start:
            self._punch(replica.directory / replica.manifest.log, start, stop - start)
            self._freed[replica.directory] = stop

    def _punch(self, file: Path, offset: int, length: int) -> None:
        try:
            fd = os.open(file, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return
        try:
            self._libc.fallocate(fd, _KEEP_SIZE_PUNCH_HOLE, ctypes.c_int64(offset), ctypes.c_int64(length))
        finally:
            os.close(fd)
