"""A command that runs in a replica's sandbox: what it writes, and its end.

The runner's PID is what bubblewrap wrote into the replica's `sandbox.json`; it is believed only while the replica's
lock is held and its PID namespace is the one that bubblewrap named. The command itself is started by `exec_in`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from services.scheduler.engines.local import exec_in, replica_state
from services.scheduler.engines.local.files import read_text
from services.scheduler.engines.local.gang_dir import ReplicaDir
from services.scheduler.ports import ExecEnded, ExecOutput, ExecRefusedError, ExecStream

PROGRAM: Final = Path(exec_in.__file__).resolve()
EXIT_TIMED_OUT: Final = 124
PIECE_BYTES: Final = 32 * 1024
PIECES_WAITING: Final = 16
_ENDING_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class SandboxIdentity:
    """The process that everything of a replica descends from, and its PID namespace."""

    pid: int
    namespace: int


def identity_of(replica: ReplicaDir) -> SandboxIdentity:
    """Who the running replica's runner is; raises ExecRefusedError where nothing runs."""
    name = f"{replica.ref.role}-{replica.ref.index}"
    if replica_state.started(replica) is None or replica_state.is_settled(replica):
        raise ExecRefusedError(f"replica {name} does not run now; a command can only be run beside it while it does")
    try:
        told = json.loads(read_text(replica.sandbox))
        return SandboxIdentity(int(told["child-pid"]), int(told["pid-namespace"]))
    except (ValueError, KeyError, TypeError):
        sentence = f"bubblewrap did not tell who replica {name} is; its version is too old, or it was started before"
        raise ExecRefusedError(sentence) from None


class Execution:
    """One running command; `pieces` is read once, and ends the command when it is left early."""

    def __init__(self, process: asyncio.subprocess.Process, limit_s: float) -> None:
        self._process = process
        self._limit_s = limit_s
        self._waiting: asyncio.Queue[ExecOutput | None] = asyncio.Queue(PIECES_WAITING)

    @classmethod
    async def begin(
        cls,
        python: Path,
        identity: SandboxIdentity,
        group: Path | None,
        directory: str,
        command: tuple[str, ...],
        limit_s: float,
    ) -> Execution:
        """Start the command."""
        process = await asyncio.create_subprocess_exec(
            *(str(python), "-I", "-S", str(PROGRAM), str(identity.pid), str(identity.namespace)),
            *(str(group) if group is not None else "", directory, *command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={},
            cwd="/",
            start_new_session=True,
        )
        return cls(process, limit_s)

    async def pieces(self) -> AsyncGenerator[ExecOutput | ExecEnded, None]:
        """What the command writes, and at last its end."""
        readers = asyncio.create_task(self._read_all())
        try:
            async with asyncio.timeout(self._limit_s):
                while (piece := await self._waiting.get()) is not None:
                    yield piece
                code = await self._process.wait()
            yield ExecEnded(code)
        except TimeoutError:
            yield ExecEnded(EXIT_TIMED_OUT, f"the command was ended after {self._limit_s:g} s")
        finally:
            readers.cancel()
            await self._end()

    async def _read_all(self) -> None:
        await asyncio.gather(self._read("stdout", self._process.stdout), self._read("stderr", self._process.stderr))
        await self._waiting.put(None)

    async def _read(self, stream: ExecStream, pipe: asyncio.StreamReader | None) -> None:
        while pipe is not None and (data := await pipe.read(PIECE_BYTES)):
            await self._waiting.put(ExecOutput(stream, data))

    async def _end(self) -> None:
        if self._process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            self._process.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(_ENDING_S):
                await self._process.wait()
                return
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
