"""The instances of the service that share a directory: each holds a lock on a file of its own as long as it lives.

The lock ends with the process, whatever ends it, so that the others see it within a look. A process that is halted
keeps its lock, and its partitions: nobody else could write to them safely.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from shared.errors import UnavailableError
from shared.locks import is_locked

_SUFFIX: Final = ".lock"


class Members:
    """Who is there."""

    def __init__(self, directory: Path, instance: str) -> None:
        self._directory = directory
        self.instance = instance
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fd = os.open(self._file(instance), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            message = (
                f"an instance {instance!r} of the logs service runs on {directory.parent}; name this one differently"
            )
            raise UnavailableError(message) from None

    def others(self) -> list[str]:
        """Names of the others that live."""
        names = (path.stem for path in self._directory.glob(f"*{_SUFFIX}"))
        return [name for name in names if name != self.instance and is_locked(self._file(name))]

    def leave(self) -> None:
        """Let the others take over."""
        os.close(self._fd)

    def _file(self, instance: str) -> Path:
        return self._directory / f"{instance}{_SUFFIX}"
