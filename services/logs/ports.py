"""What the logs service needs from outside of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol


class Archive(Protocol):
    """Where finished segments are kept when that is not the directory: objects by key."""

    def names(self, prefix: str) -> list[tuple[str, int]]:
        """Keys that begin with `prefix/`, all without one, and the size of each; raises UnavailableError."""
        ...

    def read(self, key: str, start: int, length: int) -> bytes:
        """Some bytes of an object; raises FileNotFoundError, UnavailableError."""
        ...

    def put(self, key: str, file: Path) -> None:
        """Make a file an object, also again; raises UnavailableError."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects; those that are gone do no harm. Raises UnavailableError."""
        ...
