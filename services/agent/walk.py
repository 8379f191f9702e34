"""What lies in and below a directory that user code writes to: no link is followed, and the walk is bounded."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MAX_DEPTH: Final = 12
CLOCK_TICK_S: Final = 0.01
"""Files get their times from a clock that is up to so much behind."""


def entries(root: Path, *, most: int) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Relative path and entry of everything beneath the root, nearest first, `most` of them."""
    todo, seen = deque([("", 0)]), 0
    while todo:
        directory, depth = todo.popleft()
        for entry in _scan(root / directory):
            seen += 1
            if seen > most:
                return
            path = f"{directory}/{entry.name}" if directory else entry.name
            if depth < MAX_DEPTH and entry.is_dir(follow_symlinks=False):
                todo.append((path, depth + 1))
            yield path, entry


def is_written_since(entry: os.DirEntry[str], since_s: float) -> bool:
    """Whether the entry was modified at that time or later."""
    return entry.stat(follow_symlinks=False).st_mtime >= since_s - CLOCK_TICK_S


def _scan(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return list(found)
    except OSError:
        return []
