"""Finding the event files of an attempt in its TensorBoard directory.

TensorBoard reads files with `tfevents` in their name, in the directory and below it. Those written since the attempt
started belong to it; older ones are of earlier attempts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from services.agent.source import is_directory_beneath
from services.agent.walk import entries, is_written_since
from shared.logs_wire import EVENT_FILE_MARK, is_safe_path

MAX_FILES: Final = 2_000
MAX_ENTRIES: Final = 50_000


def event_files(root: Path, below: str, *, since_s: float) -> list[str]:
    """Paths, relative to `root/below`, of event files modified since then, at most `MAX_FILES`."""
    found: list[str] = []
    for path, entry in entries(root / below, most=MAX_ENTRIES) if is_directory_beneath(root, below) else ():
        if EVENT_FILE_MARK not in entry.name or not entry.is_file(follow_symlinks=False) or not is_safe_path(path):
            continue
        if is_written_since(entry, since_s):
            found.append(path)
        if len(found) >= MAX_FILES:
            break
    return sorted(found)
