"""Python stacks of a process that is not ours, by py-spy: read from its memory, without stopping it.

py-spy runs as a child, since what it reads is whatever user code left there: it has a time limit, and what it prints is
bounded. It does not stop the process it looks at (`--nonblocking`), so a look cannot make a hang worse; the stack of a
process that works may be torn, that of one that hangs is not. It needs the right to trace: the agent's own user's
processes outside of hardened kernels, or `CAP_SYS_PTRACE`. Where it may not, its message is the answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from shared.agent_evidence import Thread

LOOK_S: Final = 10.0
_OUTPUT_MAX_BYTES: Final = 8 << 20
_THREADS_MAX: Final = 64
_FRAMES_MAX: Final = 100
_FRAME_MAX: Final = 240
_PROBLEM_MAX: Final = 300
_MAIN: Final = "MainThread"


def find_pyspy() -> Path | None:
    """The py-spy that came with our Python environment, else whatever the path has."""
    beside = Path(sys.executable).parent / "py-spy"
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    return Path(found) if found else None


async def stacks_of(program: Path | None, pid: int) -> tuple[tuple[Thread, ...], str]:
    """The threads of a Python process, the main one first; or none, and why."""
    if program is None:
        return (), "py-spy is not installed on this machine"
    try:
        status, output, complaint = await _run(str(program), "dump", "--pid", str(pid), "--nonblocking", "--json")
    except TimeoutError:
        return (), f"py-spy gave no stack within {LOOK_S:g} s"
    except OSError as error:
        return (), f"py-spy cannot be started: {error.strerror}"
    if status != 0:
        return (), f"py-spy: {_short(complaint)}"
    try:
        return threads_in(json.loads(output)), ""
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return (), f"py-spy's answer cannot be read: {error!r}"


def threads_in(told: Sequence[Mapping[str, Any]]) -> tuple[Thread, ...]:
    """The threads in py-spy's JSON."""
    in_order = sorted(told, key=lambda each: (each.get("thread_name") != _MAIN, each.get("os_thread_id") or 0))
    return tuple(_thread(each) for each in in_order[:_THREADS_MAX])


def _thread(told: Mapping[str, Any]) -> Thread:
    name = str(told.get("thread_name") or told.get("thread_id"))
    frames = tuple(_frame(each) for each in told["frames"][:_FRAMES_MAX])
    return Thread(name[:_FRAME_MAX], frames, bool(told.get("active")))


def _frame(told: Mapping[str, Any]) -> str:
    return f"{told['name']} ({told['filename']}:{told['line']})"[:_FRAME_MAX]


async def _run(*command: str) -> tuple[int, bytes, bytes]:
    """Exit status and output; raises TimeoutError."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(LOOK_S):
            output, complaint = await asyncio.gather(_bounded(process.stdout), _bounded(process.stderr))
            return await process.wait(), output, complaint
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def _bounded(stream: asyncio.StreamReader | None) -> bytes:
    """All of a stream; what passes the limit is read and forgotten."""
    kept = bytearray()
    while stream is not None and (piece := await stream.read(1 << 16)):
        kept += piece[: _OUTPUT_MAX_BYTES - len(kept)]
    return bytes(kept)


def _short(complaint: bytes) -> str:
    lines = [line.strip() for line in complaint.decode(errors="replace").splitlines() if line.strip()]
    return "; ".join(lines)[:_PROBLEM_MAX] or "no reason given"
