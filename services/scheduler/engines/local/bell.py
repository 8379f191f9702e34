"""The bell: a FIFO into which every runner writes a byte when it has something to tell.

It has a name on disk, so that the runners of a platform that was killed ring the bell of the next one. The engine keeps
it open for reading and writing, and so does each runner: a ring never blocks, fails or kills the one who rings.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Bell:
    """One engine's end of the bell."""

    def __init__(self, path: Path) -> None:
        with suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        self.fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def ring(self) -> None:
        """Wake whoever waits."""
        with suppress(BlockingIOError):  # it rings already
            os.write(self.fd, b"!")

    @contextmanager
    def heard_by(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call the listener, in the running loop, whenever there was a ring."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self.fd, self._hear, listener)
        try:
            yield
        finally:
            loop.remove_reader(self.fd)

    def _hear(self, listener: Callable[[], None]) -> None:
        with suppress(BlockingIOError):
            while len(os.read(self.fd, 4096)) == 4096:
                pass
        listener()

    def close(self) -> None:
        """Let go of it; runners may still ring."""
        os.close(self.fd)
