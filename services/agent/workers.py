"""The processes of diagnoses on this machine: one a session, `worker/lead`, warm from test to test.

It forks the processes of each node that the session has on this machine. A node makes one test at a time (of pairs of
its devices each one), and whoever asks meanwhile waits for its turn. Where a test does not answer within its limit the
node's processes are ended, since nobody can tell what they are doing; the next test of the node starts new ones. All of
them also end when nothing is asked for a while or when this process is gone, so that none outlives its diagnosis for
long even where `cancel` is never heard.

Where others come to need GPUs that a session uses, its processes are ended at once. What it asks for then has an excuse
for an answer and no problem, and so has a test whose process was ended because the agent's own memory was used up, and
one of a session that began before the agent was started anew.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from services.agent.grounds import Means
from shared.agent_wire import MalformedAnswerError
from shared.diagnosis_wire import TEST_TITLES, TestAnswer, TestRequest, answer_of_fields
from shared.nats_servers import servers
from shared.tasks import end

WORKER: Final = Path(__file__).with_name("worker")
LONGEST_S: Final = 150.0
MOST_NODES: Final = 64
# A test may be on its way while its session is ended; so many ended sessions are remembered.
OVER_KEPT: Final = 1024
_LINE_MAX: Final = 1 << 20
_log = logging.getLogger(__name__)


class Workers:
    """The processes of all sessions on this machine."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._sessions: dict[str, _Session] = {}
        self._over: deque[str] = deque(maxlen=OVER_KEPT)
        self._excused: dict[str, str] = {}
        self._begun: dict[str, None] = {}

    async def answer(self, request: TestRequest) -> TestAnswer:
        """What came of the test; whatever goes wrong is told, and not raised."""
        await asyncio.gather(*(self._end(name) for name, each in list(self._sessions.items()) if each.has_ended))
        refused = self._refused(request)
        if refused is not None:
            return refused
        self._begun[request.session] = None
        session = self._sessions.setdefault(request.session, _Session(self._means))
        kills = self._means.grounds.kills()
        try:
            answer = await session.answer(request)
        except (TimeoutError, OSError, ValueError, MalformedAnswerError) as error:
            await session.drop(request.node)
            if session.is_stuck:
                await self._end(request.session)
            late = f"{TEST_TITLES[request.test]} gave no result within {request.limit_s:g} s"
            answer = TestAnswer(problem=str(error) or late)
        return self._explained(request.session, answer, kills) if answer.problem else answer

    async def withdraw(self) -> None:
        """End what uses GPUs that others need."""
        for name, session in list(self._sessions.items()):
            excuse = self._means.grounds.refusal(session.gpus)
            if excuse:
                self._excuse(name, excuse)
                _log.info("tests of %s are ended: %s", name, excuse)
                await self._end(name)

    def _refused(self, request: TestRequest) -> TestAnswer | None:
        """What a test is told that is not made."""
        if request.session in self._over:
            return TestAnswer(problem="the diagnosis is over")
        if request.begun and request.session not in self._begun:
            self._excuse(request.session, "the agent was started anew during the diagnosis")
        excuse = self._excused.get(request.session) or self._means.grounds.refusal(request.devices)
        if excuse:
            return TestAnswer(excuse=excuse)
        if request.session not in self._sessions and self._node_count >= MOST_NODES:
            return TestAnswer(problem=f"{MOST_NODES} nodes are tested on the machine already, and it takes no more")
        return None

    def _explained(self, session: str, answer: TestAnswer, kills: int) -> TestAnswer:
        """What is told of a test that went wrong: the excuse, where there is one."""
        if self._means.grounds.kills() > kills:
            self._excuse(session, "the agent's own memory was used up (agent.resources of the chart)")
        excuse = self._excused.get(session, "")
        return TestAnswer(excuse=excuse) if excuse else answer

    def _excuse(self, session: str, why: str) -> None:
        self._excused[session] = why
        if len(self._excused) > OVER_KEPT:
            del self._excused[next(iter(self._excused))]

    async def cancel(self, session: str) -> None:
        """End the processes of a session for good."""
        self._over.append(session)
        self._excused.pop(session, None)
        self._begun.pop(session, None)
        await self._end(session)

    async def close(self) -> None:
        """End all."""
        await asyncio.gather(*map(self._end, list(self._sessions)))

    @property
    def _node_count(self) -> int:
        return sum(each.node_count for each in self._sessions.values())

    async def _end(self, session: str) -> None:
        found = self._sessions.pop(session, None)
        if found is not None:
            await found.end()


class _Session:
    """One process, started by the first test."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self.gpus: frozenset[str] = frozenset()
        """Those that its tests may have opened."""
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._turns: defaultdict[tuple[str, tuple[int, ...]], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._is_ready = False

    @property
    def has_ended(self) -> bool:
        """Whether it was started and is gone."""
        return self._process is not None and self._process.returncode is not None

    @property
    def is_stuck(self) -> bool:
        """Whether it never came so far that it could take a question."""
        return not self._is_ready

    @property
    def node_count(self) -> int:
        """How many nodes it is for."""
        return len({node for node, _ranks in self._turns})

    async def answer(self, request: TestRequest) -> TestAnswer:
        """What the processes say; raises TimeoutError, OSError, ValueError or MalformedAnswerError."""
        turn = self._turns[request.node, request.ranks]
        self.gpus |= frozenset(request.devices)
        async with asyncio.timeout(min(request.limit_s, LONGEST_S)), turn:
            await self._start()
            number = next(self._numbers)
            answered = self._waiting[number] = asyncio.get_running_loop().create_future()
            try:
                await self._say({"id": number, **asdict(request)})
                return answer_of_fields(await answered)
            finally:
                del self._waiting[number]

    async def drop(self, node: str) -> None:
        """End the processes of a node."""
        with suppress(OSError):
            await self._say({"drop": node})

    async def end(self) -> None:
        """Kill it with all that it started."""
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if self._reading is not None:
            await end(self._reading)

    async def _say(self, line: dict[str, Any]) -> None:
        if self._process is None or self._process.stdin is None:
            raise OSError("the processes of the test are not there")
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        await self._process.stdin.drain()

    async def _start(self) -> None:
        async with self._starting:
            if self._process is None:
                self._process = await asyncio.create_subprocess_exec(
                    self._means.python,
                    "-I",
                    str(WORKER),
                    self._means.address(),
                    self._means.grounds.shortage(len(self.gpus)),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    start_new_session=True,
                    limit=_LINE_MAX,
                )
                self._reading = asyncio.create_task(self._read(self._process.stdout))

    async def _read(self, answers: asyncio.StreamReader | None) -> None:
        """Hand out what comes, until nothing more does; then nobody waits any longer."""
        try:
            while answers is not None and (line := await answers.readline()):
                self._is_ready = True
                given = json.loads(line)
                waiting = self._waiting.get(given.get("id", 0))
                if waiting is not None and not waiting.done():
                    waiting.set_result(given)
        finally:
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(OSError("the processes of the test ended"))


def own_address(nats_url: str, given: str = "") -> str:
    """Where other machines reach this one: as `given`, else the address that it has on the way to NATS."""
    if given:
        return given
    target = urlsplit(servers(nats_url)[0])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((target.hostname or "127.0.0.1", target.port or 4222))
            return str(probe.getsockname()[0])
    except OSError as error:
        _log.warning("no address of this machine is known (%s); workers listen on loopback alone", error)
        return "127.0.0.1"
