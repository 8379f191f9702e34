"""Requests that are made again where that may help."""

from __future__ import annotations

import asyncio

import pytest

from services.scheduler.engines.kubernetes.api import Patience, PatientApi
from shared.clock import ManualClock
from shared.errors import UnavailableError
from shared.kubernetes.access import ApiError


class Answers:
    """An API server that gives these answers one after the other."""

    def __init__(self, *answers: object) -> None:
        self.left = list(answers)
        self.asked = 0

    async def request(
        self, method: str, path: str, *, query: object = None, body: object = None, accept: str = ""
    ) -> object:
        self.asked += 1
        answer = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    exchange = request


def busy(retry_after_s: float = 0.0) -> ApiError:
    return ApiError(429, "TooManyRequests", "too many", retry_after_s)


async def asked(*answers: object, seconds: float = 0.0) -> tuple[object, Answers]:
    """What comes of a request within so many seconds."""
    server, clock = Answers(*answers), ManualClock()
    api = PatientApi(server, clock, Patience(patience_s=10, pause_s=1))
    asking = asyncio.create_task(api.get("/path"))
    await asyncio.sleep(0)
    for _ in range(int(seconds * 10)):
        await clock.advance(0.1)
    if asking.done():
        return (asking.exception() or asking.result()), server
    asking.cancel()
    return None, server


async def test_a_lost_connection_and_a_busy_server_are_asked_again():
    found, server = await asked(UnavailableError("gone"), busy(), {"a": 1}, seconds=3.2)
    assert (found, server.asked) == ({"a": 1}, 3)


async def test_a_server_that_says_when_is_asked_then():
    assert (await asked(busy(5), {"a": 1}, seconds=4.5))[0] is None
    assert (await asked(busy(5), {"a": 1}, seconds=5.2))[0] == {"a": 1}


async def test_a_change_is_asked_for_again_too():
    server, clock = Answers(UnavailableError("gone"), {}), ManualClock()
    making = asyncio.create_task(PatientApi(server, clock, Patience(patience_s=10, pause_s=1)).make("/path", {}))
    await asyncio.sleep(0)
    await clock.advance(1.1)
    await making
    assert server.asked == 2


async def test_it_is_given_up_after_a_while_with_the_last_reason():
    found, _ = await asked(UnavailableError("gone"), seconds=20)
    assert isinstance(found, UnavailableError)
    found, _ = await asked(busy(), seconds=20)
    assert isinstance(found, ApiError)


@pytest.mark.parametrize("status", [400, 403, 404, 409, 413, 422])
async def test_what_is_refused_is_not_asked_again(status: int):
    found, server = await asked(ApiError(status, "No", "no"), seconds=2)
    assert (found.status, server.asked) == (status, 1)


async def test_a_service_account_that_is_not_there_yet_is_waited_for():
    early = ApiError(403, "Forbidden", 'error looking up service account x/default: serviceaccount "default" not found')
    found, server = await asked(early, {"a": 1}, seconds=1.2)
    assert (found, server.asked) == ({"a": 1}, 2)


async def test_a_server_that_wants_to_be_left_alone_for_long_holds_nobody_up():
    answer, server = await asked(busy(retry_after_s=86_400), "fine")
    assert isinstance(answer, ApiError)
    assert server.asked == 1
