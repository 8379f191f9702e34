"""Asking node agents for measurements and tests, with a deadline.

An agent that is being restarted, or whose answer is lost with a connection, is asked again within the deadline. After
it the nodes count as silent, but only where we ourselves are connected: while NATS is away nothing can be said about
any node, and the whole diagnosis is taken up again later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

import structlog

from services.diagnoser.domain.readings import Reading
from shared.agent_wire import MalformedAnswerError, decode_probe_answer, encode_probe_request, probe_subject
from shared.bus import Bus, BusUnavailableError
from shared.clock import Clock
from shared.diagnosis_wire import (
    TEST_TITLES,
    TestAnswer,
    TestRequest,
    cancel_subject,
    decode_test_answer,
    encode_cancel,
    encode_test_request,
    worker_subject,
)

TRY_S: Final = 11.0
PAUSE_S: Final = 0.5
ANSWER_S: Final = 2.0
CANCEL_S: Final = 3.0


class Agents:
    """The agents of all machines, reached over NATS."""

    def __init__(self, bus: Bus, clock: Clock, deadline_s: float) -> None:
        self._bus = bus
        self._clock = clock
        self._deadline_s = deadline_s
        self._log = structlog.get_logger(service="diagnoser")

    async def probe(
        self, machine: str, nodes: Iterable[str], places: Mapping[str, bool] | None = None
    ) -> dict[str, Reading]:
        """Readings of those nodes that were measured in time; raises BusUnavailableError while NATS is away."""
        request = encode_probe_request(nodes, places)
        try:
            async with asyncio.timeout(self._deadline_s):
                return await self._insist(machine, request)
        except TimeoutError:
            if not self._bus.client.is_connected:
                raise BusUnavailableError(f"NATS is away; machine {machine} cannot be asked") from None
            self._log.warning("agent_silent", machine=machine, deadline_s=self._deadline_s)
            return {}

    async def test(self, machine: str, request: TestRequest) -> TestAnswer:
        """What came of the test; where no answer came in time, that is the problem."""
        within_s = request.limit_s + ANSWER_S
        try:
            answer = await self._bus.ask(worker_subject(machine), encode_test_request(request), within_s=within_s)
            return decode_test_answer(answer)
        except (BusUnavailableError, MalformedAnswerError) as error:
            if not self._bus.client.is_connected:
                raise BusUnavailableError(f"NATS is away; machine {machine} cannot be asked") from None
            return TestAnswer(problem=f"its agent did not answer about {TEST_TITLES[request.test]}: {error.message}")

    async def cancel(self, machine: str, session: str) -> None:
        """Have the workers of the session ended; where that is not heard, they end by themselves after a while."""
        try:
            await self._bus.ask(cancel_subject(machine), encode_cancel(session), within_s=CANCEL_S)
        except BusUnavailableError as error:
            self._log.info("workers_left_to_themselves", machine=machine, reason=error.message)

    async def _insist(self, machine: str, request: bytes) -> dict[str, Reading]:
        while True:
            try:
                return await self._ask(machine, request)
            except (BusUnavailableError, MalformedAnswerError) as error:
                self._log.info("agent_asked_again", machine=machine, reason=error.message)
                await asyncio.sleep(PAUSE_S)

    async def _ask(self, machine: str, request: bytes) -> dict[str, Reading]:
        asked = self._now_ms()
        measured = decode_probe_answer(await self._bus.ask(probe_subject(machine), request, within_s=TRY_S))
        answered = self._now_ms()
        return {node: Reading(each, asked, answered) for node, each in measured.items()}

    def _now_ms(self) -> int:
        return int(self._clock.now().timestamp() * 1000)
