"""Agents of one machine without NATS between: the real probe and the real workers, for nodes that are shares of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from services.agent.bench import Bench
from services.agent.deep import DeepTests
from services.agent.grounds import Means, WholeMachine
from services.agent.prober import Prober, look_at_places, measure_machine
from services.agent.workers import Workers
from services.diagnoser.domain.readings import Reading
from shared.agent_wire import decode_probe_answer, encode_probe_request
from shared.clock import SystemClock
from shared.diagnosis_wire import (
    TestAnswer,
    TestRequest,
    decode_test_answer,
    encode_cancel,
    encode_test_request,
)


class RealAgents:
    """What `Agents` asks for, answered by this machine itself."""

    def __init__(self, home: Path, python: str = sys.executable) -> None:
        grounds = WholeMachine()
        self._bench = Bench(Workers(Means(lambda: "127.0.0.1", python, grounds)), DeepTests(grounds), grounds)
        self._prober = Prober(lambda: measure_machine(home), {}, look_at_places)
        self._clock = SystemClock()

    async def probe(self, _machine: str, nodes: Sequence[str], places: Mapping[str, bool]) -> dict[str, Reading]:
        asked = self._now_ms()
        answer = decode_probe_answer(await self._prober.answer(encode_probe_request(nodes, places)))
        return {node: Reading(each, asked, self._now_ms()) for node, each in answer.items()}

    async def test(self, _machine: str, request: TestRequest) -> TestAnswer:
        return decode_test_answer(await self._bench.test(encode_test_request(request)))

    async def cancel(self, _machine: str, session: str) -> None:
        await self._bench.cancel(encode_cancel(session))

    def _now_ms(self) -> int:
        return int(self._clock.now().timestamp() * 1000)
