"""Finding the event files of an attempt in its TensorBoard directory.

TensorBoard reads files with `tfevents` in their name, in the directory and below it. Those written since the attempt
started belong to it; older ones are of earlier attempts. The walk follows no links and is bounded, since it runs over
whatever user code made.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from services.agent.source import is_directory_beneath
from shared.logs_wire import is_safe_path

MARK: Final = "tfevents"
MAX_FILES: Final = 2_000
MAX_ENTRIES: Final = 50_000
MAX_DEPTH: Final = 12
_CLOCK_TICK_S: Final = 0.01
"""Files get their times from a clock that is up to so much behind."""


def event_files(root: Path, below: str, *, since_s: float) -> list[str]:
    """Paths, relative to `root/below`, of event files modified since then, at most `MAX_FILES`."""
    found: list[str] = []
    for path, entry in _entries(root / below) if is_directory_beneath(root, below) else ():
        if MARK not in entry.name or not entry.is_file(follow_symlinks=False) or not is_safe_path(path):
            continue
        if entry.stat(follow_symlinks=False).st_mtime >= since_s - _CLOCK_TICK_S:
            found.append(path)
        if len(found) >= MAX_FILES:
            break
    return sorted(found)


def _entries(root: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything beneath the root, nearest first."""
    todo, seen = deque([("", 0)]), 0
    while todo:
        directory, depth = todo.popleft()
        for entry in _scan(root / directory):
            seen += 1
            if seen > MAX_ENTRIES:
                return
            path = f"{directory}/{entry.name}" if directory else entry.name
            if depth < MAX_DEPTH and entry.is_dir(follow_symlinks=False):
                todo.append((path, depth + 1))
            yield path, entry


def _scan(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []
