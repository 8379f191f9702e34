"""Opening SQLite files that hold nothing but what can be built again from the streams.

They are written without waiting for the disk: whoever opens one must be ready to throw it away and build it anew.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path


def open_rebuildable(path: Path, schema_version: int) -> sqlite3.Connection:
    """The file, made where it is missing; its `user_version` is then 0.

    Raises sqlite3.Error where it is damaged, or was written with another version of the schema.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = OFF")
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, schema_version):
            raise sqlite3.DatabaseError(f"schema version {version}, this version reads {schema_version}")
    except sqlite3.Error:
        database.close()
        raise
    return database


def remove_rebuildable(path: Path) -> None:
    """Throw the file away, with what SQLite has beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def boot_id() -> str:
    """Which boot of the machine this is; empty where it does not say. A loss of power may have cut a file anywhere."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
