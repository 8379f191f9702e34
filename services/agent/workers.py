"""Answers `tm.agent.<machine>.test` and `….cancel`: one worker process a session and node, warm from test to test.

A worker makes one test at a time; whoever asks meanwhile waits for its turn. A test that does not answer within its
limit ends the worker, since nobody can tell what it is doing; the next test of the session starts a new one. A worker
also ends by itself when nothing is asked for a while or when this process is gone, so that none outlives its diagnosis
for long even where `cancel` is never heard.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from shared.agent_wire import MalformedAnswerError
from shared.diagnosis_wire import (
    TestAnswer,
    TestRequest,
    answer_of_fields,
    decode_cancel,
    decode_test_request,
    encode_test_answer,
)
from shared.nats_servers import servers

WORKER: Final = Path(__file__).with_name("worker.py")
LONGEST_S: Final = 60.0
MOST_WORKERS: Final = 64
_LINE_MAX: Final = 1 << 20
_log = logging.getLogger(__name__)


class Workers:
    """The worker processes of all sessions on this machine; `host` is where other machines reach them."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._workers: dict[tuple[str, str], _Worker] = {}

    async def test(self, body: bytes) -> bytes:
        """The answer to the request for a test; raises MalformedAnswerError where it is none."""
        return encode_test_answer(await self._made(decode_test_request(body)))

    async def cancel(self, body: bytes) -> bytes:
        """End the workers of a session; an empty answer says that they are gone."""
        session = decode_cancel(body)
        await asyncio.gather(*(self._end(key) for key in list(self._workers) if key[0] == session))
        return b""

    async def close(self) -> None:
        """End all workers."""
        await asyncio.gather(*(self._end(key) for key in list(self._workers)))

    async def _made(self, request: TestRequest) -> TestAnswer:
        key = (request.session, request.node)
        await self._forget_ended()
        if key not in self._workers and len(self._workers) >= MOST_WORKERS:
            return TestAnswer(problem=f"the machine has {MOST_WORKERS} workers already, and takes no more")
        worker = self._workers.setdefault(key, _Worker(self._host))
        try:
            async with asyncio.timeout(min(request.limit_s, LONGEST_S)):
                return await worker.answer(request)
        except (TimeoutError, OSError, ValueError, MalformedAnswerError) as error:
            await self._end(key)
            return TestAnswer(problem=str(error) or f"no result of the {request.test} test in {request.limit_s:g} s")

    async def _forget_ended(self) -> None:
        await asyncio.gather(*(self._end(key) for key, worker in list(self._workers.items()) if worker.has_ended))

    async def _end(self, key: tuple[str, str]) -> None:
        worker = self._workers.pop(key, None)
        if worker is not None:
            await worker.end()


class _Worker:
    """One process, started by its first test."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    @property
    def has_ended(self) -> bool:
        """Whether it was started and is gone."""
        return self._process is not None and self._process.returncode is not None

    async def answer(self, request: TestRequest) -> TestAnswer:
        """What the worker says; raises OSError, ValueError or MalformedAnswerError where it fails."""
        async with self._turn:
            process = self._process = self._process or await self._start()
            if process.stdin is None or process.stdout is None:
                raise OSError("the worker has no pipes")
            process.stdin.write(json.dumps(asdict(request)).encode() + b"\n")
            await process.stdin.drain()
            line = await process.stdout.readline()
            if not line:
                raise OSError("the worker ended")
            return answer_of_fields(json.loads(line))

    async def end(self) -> None:
        """Kill it with all that it started."""
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    async def _start(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            str(WORKER),
            self._host,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=_LINE_MAX,
        )


def own_address(nats_url: str) -> str:
    """The address that this machine has on the way to NATS: where other machines of the cluster reach it, too."""
    target = urlsplit(servers(nats_url)[0])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((target.hostname or "127.0.0.1", target.port or 4222))
            return str(probe.getsockname()[0])
    except OSError as error:
        _log.warning("no address of this machine is known (%s); workers listen on loopback alone", error)
        return "127.0.0.1"
