"""Logs as a container runtime writes them below /var/log/pods: a line with its time, stream and whether it is whole.

`<namespace>_<pod>_<uid>/<container>/0.log` holds lines such as
`2026-01-01T00:00:00.000000001Z stdout F text`. A text of more than 16 KiB comes in parts, all but the last tagged P.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from tests.support.kubernetes.resources import Json

PART_BYTES: Final = 16 << 10


def log_path(logs: Path, pod: Json, container: str) -> Path:
    """The file of a container's first run."""
    metadata = pod["metadata"]
    return logs / f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}" / container / "0.log"


async def write_log(reader: asyncio.StreamReader, stream: str, file: IO[bytes]) -> None:
    """Everything that comes, until the end."""
    rest = b""
    while chunk := await reader.read(PART_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            _write(file, stream, line, whole=True)
        while len(rest) >= PART_BYTES:
            _write(file, stream, rest[:PART_BYTES], whole=False)
            rest = rest[PART_BYTES:]
        file.flush()
    if rest:
        _write(file, stream, rest, whole=False)
    file.flush()


def read_log(path: Path) -> bytes:
    """The text alone, as `pods/log` gives it."""
    if not path.exists():
        return b""
    parts = [line.split(b" ", 3) for line in path.read_bytes().splitlines()]
    return b"".join(text + (b"\n" if tag == b"F" else b"") for _, _, tag, text in parts)


def _write(file: IO[bytes], stream: str, text: bytes, *, whole: bool) -> None:
    while len(text) > PART_BYTES:
        _write(file, stream, text[:PART_BYTES], whole=False)
        text = text[PART_BYTES:]
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    moment = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"
    file.write(f"{moment} {stream} {'F' if whole else 'P'} ".encode() + text + b"\n")
