"""Tests of a diagnosis go to the workers, or deep ones to DCGM."""

from __future__ import annotations

import pytest

from services.agent.bench import Bench
from services.agent.deep import DeepTests
from services.agent.grounds import Means, WholeMachine
from services.agent.workers import Workers
from shared.agent_wire import MalformedAnswerError
from shared.diagnosis_wire import TestRequest, decode_test_answer, encode_cancel, encode_test_request


def bench() -> Bench:
    grounds = WholeMachine()
    return Bench(Workers(Means(lambda: "127.0.0.1", grounds=grounds)), DeepTests(grounds, lambda _name: None), grounds)


async def test_deep_tests_are_refused_where_dcgm_is_not_installed():
    request = encode_test_request(TestRequest("dg-1", "n-1", "deep", 5.0, devices=("GPU-1",), level=2))
    answer = decode_test_answer(await bench().test(request))
    assert answer.problem == (
        "DCGM is not installed; install NVIDIA's datacenter-gpu-manager, which brings the command dcgmi"
    )


async def test_what_is_no_request_is_refused():
    with pytest.raises(MalformedAnswerError, match="test 'dance' is unknown; there are begin"):
        await bench().test(b'{"test": "dance"}')


async def test_a_session_that_has_nothing_here_is_cancelled_too():
    assert await bench().cancel(encode_cancel("dg-1")) == b""
