"""The launcher's child processes, nats-server and the node agent: they end with it, and are started again if they end.

Each child is started through `tether`, which asks the kernel for a signal at the death of its parent, so that a
launcher killed with -9 leaves none behind. The request is tied to the parent's thread: the launcher starts its children
in the main one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from deploy.local.home import HomeError

_GRACE_S: Final = 10.0
_FIRST_PAUSE_S: Final = 0.2
_MAX_PAUSE_S: Final = 5.0
_READY_S: Final = 15.0
_TETHER: Final = Path(__file__).with_name("tether.py")


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What to run."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    last_signal: signal.Signals = signal.SIGTERM
    """What it gets when the launcher dies; a TERM would wait for as long as it is stopped."""


class Child:
    """One child process, kept running until `stop`."""

    def __init__(self, spec: ChildSpec) -> None:
        self._spec = spec
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()
        self._log = structlog.get_logger(child=spec.name)

    @property
    def pid(self) -> int | None:
        """Process id of the present incarnation."""
        return self._process.pid if self._process else None

    @property
    def exit_status(self) -> int | None:
        """How the present incarnation ended; None while it runs."""
        return self._process.returncode if self._process else None

    async def start(self) -> None:
        """Start it once; raises HomeError where it cannot be executed."""
        tether = (sys.executable, "-I", "-S", str(_TETHER), str(os.getpid()), str(int(self._spec.last_signal)))
        with self._spec.log.open("ab") as log:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *tether,
                    *self._spec.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=dict(self._spec.environment),
                )
            except OSError as error:
                raise HomeError(f"{self._spec.command[0]} cannot be started: {error.strerror}") from error

    async def keep_running(self) -> None:
        """Start it again whenever it ends, after a growing pause; returns after `stop`."""
        pause_s = _FIRST_PAUSE_S
        while self._process is not None:
            began = asyncio.get_running_loop().time()
            status = await self._process.wait()
            if self._stopping.is_set():
                return
            lived_s = asyncio.get_running_loop().time() - began
            pause_s = _FIRST_PAUSE_S if lived_s > _MAX_PAUSE_S else min(_MAX_PAUSE_S, pause_s * 2)
            self._log.error("child_ended", status=status, restart_in_s=pause_s)
            if await self._stopped_within(pause_s):
                return
            await self.start()

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._stopping.wait()
        except TimeoutError:
            return False

    async def stop(self) -> None:
        """TERM it, KILL it after ten seconds."""
        self._stopping.set()
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(_GRACE_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


def nats_server_command() -> str:
    """The nats-server that came with our Python environment, else whatever the path has."""
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else "nats-server"


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def await_nats(port: int, child: Child, log: Path) -> None:
    """Return once the server greets; raises HomeError where it ends or stays silent."""
    try:
        async with asyncio.timeout(_READY_S):
            while not await _greets(port):
                if child.exit_status is not None:
                    raise HomeError(f"nats-server ended with status {child.exit_status}; {log} says why")
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise HomeError(f"nats-server was not ready within {_READY_S:g} s; {log} says why") from None


async def _greets(port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    try:
        return (await reader.read(4)) == b"INFO"
    finally:
        writer.close()
