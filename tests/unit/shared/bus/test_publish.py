"""Writes to a server that takes one write at a time for a sequence that is compared, as a cluster of servers does."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import cast

from nats.aio.client import Client

from shared import events as ev
from shared.bus.history import History
from shared.bus.publish import Fence, Publisher, Transition
from shared.ids import new_job_id
from tests.support.jobs import event

MOVING_ON = {"error": {"code": 400, "err_code": 10164, "description": "wrong last sequence"}}
EPOCH = 7


@dataclass
class Reply:
    data: bytes


class OneAtATime:
    """Answers in the second turn of the loop after a request, and refuses what comes in between."""

    def __init__(self) -> None:
        self.refused = self.taken = 0
        self._busy = False

    async def publish(self, *_: object, **__: object) -> None:
        """Part of a batch, which nothing answers before its commit."""

    async def request(self, *_: object, **__: object) -> Reply:
        if self._busy:
            self.refused += 1
            return Reply(json.dumps(MOVING_ON).encode())
        self._busy = True
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self._busy = False
        self.taken += 1
        return Reply(json.dumps({"seq": self.taken}).encode())


def a_start() -> list[Transition | Fence]:
    return [Transition(event(ev.Started(), new_job_id()), 1), Fence(EPOCH)]


async def test_fenced_writes_that_meet_are_all_kept_and_go_in_turn_from_then_on():
    server = OneAtATime()
    publisher = Publisher(cast("Client", server), cast("History", None))
    await asyncio.gather(*(publisher.write(a_start()) for _ in range(5)))
    assert (server.taken, server.refused) == (5, 4)
    await asyncio.gather(*(publisher.write(a_start()) for _ in range(5)))
    assert (server.taken, server.refused) == (10, 4)
