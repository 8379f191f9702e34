"""The platform as the work of a whole process: its event loop, its signals, and one error where it could not run."""

from __future__ import annotations

import asyncio
import signal

from deploy.local.home import HomeError
from deploy.local.launcher import LaunchOptions, OnReady, run_platform
from shared.errors import TrainmasterError
from shared.garbage import collect_rarely


def run_until_stopped(options: LaunchOptions, on_ready: OnReady) -> None:
    """Run until TERM or Ctrl-C; raises TrainmasterError where the platform cannot run."""
    collect_rarely()
    try:
        asyncio.run(_run(options, on_ready))
    except ExceptionGroup as group:
        first = _first(group)
        if isinstance(first, TrainmasterError):
            raise first from group
        raise HomeError(f"the platform failed: {type(first).__name__}: {first}") from group


async def _run(options: LaunchOptions, on_ready: OnReady) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await run_platform(options, stopping, on_ready)


def _first(group: ExceptionGroup[Exception]) -> Exception:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first
