"""A command that runs in a replica's sandbox: what it writes, and its end.

The runner's PID is what bubblewrap wrote into the replica's `sandbox.json`; it is believed only while the replica's
lock is held and its PID namespace is the one that bubblewrap named. The command itself is started by `exec_in`.
"""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from services.scheduler.engines.local import exec_in, replica_state
from services.scheduler.engines.local.files import read_text
from services.scheduler.engines.local.gang_dir import ReplicaDir
from services.scheduler.ports.sandboxes import ExecEnded, ExecOutput, ExecRefusedError, ExecStream

PROGRAM: Final = Path(exec_in.__file__).resolve()
EXIT_TIMED_OUT: Final = 124
PIECE_BYTES: Final = 32 * 1024
PIECES_WAITING: Final = 16
_ENDING_S: Final = 2.0

ResultT = TypeVar("ResultT")


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
    """A command to be run; it is started when `pieces` is first read, and ended where that is left early."""

    def __init__(self, arguments: tuple[str, ...], limit_s: float) -> None:
        self._arguments = arguments
        self._limit_s = limit_s
        self._waiting: asyncio.Queue[ExecOutput | None] = asyncio.Queue(PIECES_WAITING)

    @classmethod
    def of(
        cls,
        python: Path,
        identity: SandboxIdentity,
        group: Path | None,
        directory: str,
        command: tuple[str, ...],
        limit_s: float,
    ) -> Execution:
        """The command in the sandbox of this identity; it joins the memory group, where there is one."""
        program = (str(python), "-I", "-S", str(PROGRAM))
        place = (str(identity.pid), str(identity.namespace), str(group) if group is not None else "", directory)
        return cls((*program, *place, *command), limit_s)

    async def pieces(self) -> AsyncGenerator[ExecOutput | ExecEnded, None]:
        """What the command writes, and at last its end."""
        deadline = asyncio.get_running_loop().time() + self._limit_s
        process = await self._start()
        readers = asyncio.create_task(self._read_all(process))
        try:
            # Each piece may be waited for in another task, so no timeout may last over a yield.
            while (piece := await _within(deadline, self._waiting.get())) is not None:
                yield piece
            yield ExecEnded(await _within(deadline, process.wait()))
        except TimeoutError:
            yield ExecEnded(EXIT_TIMED_OUT, f"the command was ended after {self._limit_s:g} s")
        finally:
            readers.cancel()
            await _end(process)

    async def _start(self) -> Process:
        return await asyncio.create_subprocess_exec(
            *self._arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={},
            cwd="/",
            start_new_session=True,
        )

    async def _read_all(self, process: Process) -> None:
        await asyncio.gather(self._read("stdout", process.stdout), self._read("stderr", process.stderr))
        await self._waiting.put(None)

    async def _read(self, stream: ExecStream, pipe: asyncio.StreamReader | None) -> None:
        while pipe is not None and (data := await pipe.read(PIECE_BYTES)):
            await self._waiting.put(ExecOutput(stream, data))


async def _within(deadline: float, awaited: Coroutine[Any, Any, ResultT]) -> ResultT:
    async with asyncio.timeout_at(deadline):
        return await awaited


async def _end(process: Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    with suppress(TimeoutError):
        async with asyncio.timeout(_ENDING_S):
            await process.wait()
            return
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()
