"""An object of the archive as a file: in blocks, so that memory stays small, and in its place only when it is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from services.logs.adapters.disk import sync_file
from services.logs.ports import Archive

BLOCK_BYTES: Final = 8 * 1024 * 1024


def fetch(archive: Archive, key: str, size: int, path: Path) -> None:
    """Put the object at a path whose directory is there; raises FileNotFoundError, UnavailableError."""
    # The name of a part tells of no kind of file, so that nobody takes it for one.
    part = path.with_name("part")
    with part.open("wb") as file:
        for start in range(0, size, BLOCK_BYTES):
            file.write(archive.read(key, start, min(BLOCK_BYTES, size - start)))
    sync_file(part)
    part.rename(path)
