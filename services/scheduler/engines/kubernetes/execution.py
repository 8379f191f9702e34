"""A command beside a replica's own, in the same container: `pods/exec` over a websocket.

The first byte of each message is its channel: 0 goes to the command, 1 and 2 come from it, 3 brings a `Status` with its
end. The API server ends nothing when the connection ends, so the command is started by a small shell that listens on
channel 0: a line, or the end of the connection, and it kills the command and whatever that has started. These
processes are told by a variable of their environment, as they may have left every group and session.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, cast

import aiohttp

from services.scheduler.ports.sandboxes import ExecEnded, ExecOutput, ExecStream
from shared.errors import UnavailableError
from shared.kubernetes.access import ApiError, KubernetesApi
from shared.kubernetes.names import REPLICA_CONTAINER

EXIT_TIMED_OUT: Final = 124
EXIT_NOT_STARTED: Final = 125
PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, STATUS = range(4)
END: Final = bytes((STDIN,)) + b"end\n"
ENDING_S: Final = 2.0

# The command is stopped before all else is killed, since its end is the end of this shell, and so of the listener.
LISTENER: Final = """\
mark=$1; shift
end() {
  kill -STOP "$main"
  for round in 1 2 3; do
    for process in /proc/[0-9]*; do
      [ "$process" = "/proc/$main" ] && continue
      grep -q "TM_EXEC_ID=$mark" "$process/environ" && kill -KILL "${process#/proc/}"
    done
  done
  kill -KILL "$main"
}
exec 3<&0
TM_EXEC_ID=$mark "$@" </dev/null 3<&- &
main=$!
{ read -r _ <&3; end; } >/dev/null 2>&1 &
listener=$!
exec 3<&-
wait "$main"
code=$?
exec 2>/dev/null
kill -KILL "$listener"
exit "$code"
"""


class KubernetesExecution:
    """A command to be run; it is started when `pieces` is first read, and ended where that is left early."""

    def __init__(self, api: KubernetesApi, namespace: str, pod: str, command: Sequence[str], limit_s: float) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec"
        self._command = ("/bin/sh", "-c", LISTENER, "trainmaster", secrets.token_hex(8), *command)
        self._limit_s = limit_s

    async def pieces(self) -> AsyncGenerator[ExecOutput | ExecEnded, None]:
        """What the command writes, and at last its end."""
        try:
            async with self._api.socket(self._path, self._query(), PROTOCOLS) as socket:
                async for piece in self._follow(socket):
                    yield piece
        except (ApiError, UnavailableError) as error:
            yield ExecEnded(EXIT_NOT_STARTED, f"the replica's container cannot be reached: {error.message}")

    def _query(self) -> list[tuple[str, str]]:
        streams = [(stream, "true") for stream in ("stdin", "stdout", "stderr")]
        return [("container", REPLICA_CONTAINER), *streams, *(("command", part) for part in self._command)]

    async def _follow(self, socket: aiohttp.ClientWebSocketResponse) -> AsyncGenerator[ExecOutput | ExecEnded, None]:
        deadline = asyncio.get_running_loop().time() + self._limit_s
        ended: ExecEnded | None = None
        try:
            while ended is None:
                # Each piece may be waited for in another task, so no timeout may last over a yield.
                piece = await _within(deadline, socket)
                if isinstance(piece, ExecEnded):
                    ended = piece
                elif piece is not None:
                    yield piece
        except TimeoutError:
            ended = ExecEnded(EXIT_TIMED_OUT, f"the command was ended after {self._limit_s:g} s")
            await _end(socket)
        finally:
            if ended is None:
                await _end(socket)
        yield ended


async def _within(deadline: float, socket: aiohttp.ClientWebSocketResponse) -> ExecOutput | ExecEnded | None:
    """What comes next; None for a message that says nothing. Raises TimeoutError at the deadline."""
    async with asyncio.timeout_at(deadline):
        message = await socket.receive()
    if message.type is aiohttp.WSMsgType.BINARY:
        return _read(message.data)
    if message.type is aiohttp.WSMsgType.TEXT:
        return _read(message.data.encode())
    return ExecEnded(EXIT_NOT_STARTED, "the connection to the replica's container broke, and the command was ended")


def _read(message: bytes) -> ExecOutput | ExecEnded | None:
    channel, data = message[:1], message[1:]
    if channel == bytes((STATUS,)):
        return _ended(data)
    stream: ExecStream | None = {bytes((STDOUT,)): "stdout", bytes((STDERR,)): "stderr"}.get(channel)  # type: ignore[assignment]
    return ExecOutput(stream, data) if stream and data else None


def _ended(data: bytes) -> ExecEnded:
    """The end that a `Status` tells: the command's code, or why it was not started."""
    try:
        status = cast("Mapping[str, Any]", json.loads(data))
        if status.get("status") == "Success":
            return ExecEnded(0)
        causes = {cause["reason"]: cause["message"] for cause in (status.get("details") or {}).get("causes") or ()}
        if "ExitCode" in causes:
            return ExecEnded(int(causes["ExitCode"]))
        return ExecEnded(EXIT_NOT_STARTED, f"the command was not started: {status.get('message') or 'no reason given'}")
    except (ValueError, KeyError, TypeError, AttributeError):
        return ExecEnded(EXIT_NOT_STARTED, "the end of the command was told in a way that is not known here")


async def _end(socket: aiohttp.ClientWebSocketResponse) -> None:
    """Have the command killed, and see it gone, unless that takes too long; what it still writes is let go."""
    with suppress(TimeoutError, aiohttp.ClientError, ConnectionError):
        async with asyncio.timeout(ENDING_S):
            await socket.send_bytes(END)
            while not isinstance(await _within(asyncio.get_running_loop().time() + ENDING_S, socket), ExecEnded):
                pass
