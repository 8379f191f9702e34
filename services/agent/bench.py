"""Answers `tm.agent.<machine>.test` and `….cancel`: hands tests to the worker processes, or to DCGM the deep ones."""

from __future__ import annotations

import asyncio

from services.agent.deep import DeepTests
from services.agent.grounds import Grounds
from services.agent.workers import Workers
from shared.diagnosis_wire import decode_cancel, decode_test_request, encode_test_answer


class Bench:
    """All tests that a diagnosis may ask for."""

    def __init__(self, workers: Workers, deep: DeepTests, grounds: Grounds) -> None:
        self._workers = workers
        self._deep = deep
        self._grounds = grounds

    async def test(self, body: bytes) -> bytes:
        """The answer to the request for a test; raises MalformedAnswerError where it is none."""
        request = decode_test_request(body)
        answering = self._deep.answer if request.test == "deep" else self._workers.answer
        return encode_test_answer(await answering(request))

    async def watch(self) -> None:
        """End what uses GPUs that others need, until cancelled."""
        while True:
            await self._grounds.changed()
            await asyncio.gather(self._workers.withdraw(), self._deep.withdraw())

    async def cancel(self, body: bytes) -> bytes:
        """End all tests of a session; an empty answer says that they are gone."""
        session = decode_cancel(body)
        await asyncio.gather(self._workers.cancel(session), self._deep.cancel(session))
        return b""

    async def close(self) -> None:
        """End all."""
        await asyncio.gather(self._workers.close(), self._deep.close())
