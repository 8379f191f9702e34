"""Open collectives of a rank, from PyTorch's flight recorder, where the job has set one up.

A process group of NCCL keeps a ring of its last collectives and writes it to a file when somebody writes into a named
pipe. Both are named by variables of the process: `TORCH_NCCL_DEBUG_INFO_PIPE_FILE` (with `<rank>.pipe` behind it) and
`TORCH_FR_DUMP_TEMP_FILE`, formerly `TORCH_NCCL_DEBUG_INFO_TEMP_FILE` (with `<rank>` behind it). A job that sets none
has no flight recorder that could be asked from outside, and neither has Gloo.

Paths are those of the process, so they are looked for below its own root, where no link is followed. The file is a
pickle that user code could have written: `flight_reader` reads it, in a process that can do nothing else.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from services.agent.processes import PROC, Environment
from services.agent.source import open_beneath, open_fifo_beneath
from shared.agent_evidence import Collective

DUMP_S: Final = 10.0
READER: Final = Path(__file__).with_name("flight_reader.py")
_PIPE_VARIABLE: Final = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
_FILE_VARIABLES: Final = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_LOOK_S: Final = 0.1
_READ_S: Final = 10.0
_TEXT_MAX: Final = 200


def is_recording(environment: Environment) -> bool:
    """Whether the process has a flight recorder that can be asked."""
    return _PIPE_VARIABLE in environment and any(name in environment for name in _FILE_VARIABLES)


async def open_collectives(pid: int, rank: int, environment: Environment) -> tuple[tuple[Collective, ...], str]:
    """Collectives that the rank has begun and not finished; or none, and why it cannot be told."""
    root = PROC / str(pid) / "root"
    file = next(environment[name] for name in _FILE_VARIABLES if name in environment)
    asked_ns = time.time_ns()
    if not _ask(root, f"{environment[_PIPE_VARIABLE]}{rank}.pipe"):
        return (), "the flight recorder's pipe is not there, or nobody reads from it"
    dump = await _dumped(root, f"{file}{rank}", asked_ns)
    if dump is None:
        return (), f"the flight recorder wrote nothing within {DUMP_S:g} s"
    try:
        return await _read(dump)
    finally:
        os.close(dump)


def collectives_in(told: Sequence[dict[str, Any]]) -> tuple[Collective, ...]:
    """What the reader printed."""
    return tuple(
        Collective(
            name=str(each["name"])[:_TEXT_MAX],
            state=str(each["state"])[:_TEXT_MAX],
            sequence=int(each["sequence"]),
            group=str(each["group"])[:_TEXT_MAX],
            sizes=str(each["sizes"])[:_TEXT_MAX],
        )
        for each in told
    )


def _ask(root: Path, path: str) -> bool:
    fd = open_fifo_beneath(root, path.lstrip("/"))
    if fd is None:
        return False
    try:
        with suppress(BlockingIOError):
            return os.write(fd, b"1\n") > 0
        return False
    finally:
        os.close(fd)


async def _dumped(root: Path, path: str, since_ns: int) -> int | None:
    """Descriptor of the file, once it was written anew and has stopped growing."""
    deadline, size = time.monotonic() + DUMP_S, -1
    while time.monotonic() < deadline:
        fd = open_beneath(root, path.lstrip("/"))
        if fd is not None:
            found = os.fstat(fd)
            if found.st_mtime_ns >= since_ns and found.st_size == size > 0:
                return fd
            size = found.st_size
            os.close(fd)
        await asyncio.sleep(_LOOK_S)
    return None


async def _read(dump: int) -> tuple[tuple[Collective, ...], str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", str(READER), stdin=dump, stdout=asyncio.subprocess.PIPE, env={}
    )
    try:
        async with asyncio.timeout(_READ_S):
            output, _ = await process.communicate()
        return collectives_in(json.loads(output)), ""
    except (TimeoutError, ValueError, KeyError, TypeError):
        return (), "what the flight recorder wrote cannot be read"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
