"""Workers of the diagnosis: real processes that test each other over loopback."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from services.agent import worker as worker_script
from services.agent.workers import Workers, own_address
from shared.agent_wire import MalformedAnswerError
from shared.diagnosis_wire import (
    Peer,
    TestAnswer,
    TestName,
    TestRequest,
    decode_test_answer,
    encode_cancel,
    encode_test_request,
)


@pytest.fixture
async def workers() -> AsyncIterator[Workers]:
    made = Workers("127.0.0.1")
    yield made
    await made.close()


async def ask(
    workers: Workers, node: str, test: TestName, peers: tuple[Peer, ...] = (), limit_s: float = 20
) -> TestAnswer:
    request = TestRequest("dg-1", node, test, limit_s, peers, "round-1")
    return decode_test_answer(await workers.test(encode_test_request(request)))


async def serving(workers: Workers, *nodes: str) -> tuple[Peer, ...]:
    served = [(await ask(workers, node, "serve")).served for node in nodes]
    return tuple(peer for peer in served if peer is not None)


async def test_two_workers_measure_the_way_between_them(workers: Workers) -> None:
    (there,) = await serving(workers, "n-2")
    answer = await ask(workers, "n-1", "exchange", (there,))
    assert answer.problem == ""
    assert answer.peers["n-2"].keys() == {"latencyUs", "bandwidthMbS"}
    assert min(answer.peers["n-2"].values()) > 0


async def test_a_peer_that_is_not_there_or_lets_nobody_in_is_a_result(workers: Workers) -> None:
    (there,) = await serving(workers, "n-2")
    strangers = (replace(there, node="n-3", port=1), replace(there, node="n-4", token="0" * 32))
    answer = await ask(workers, "n-1", "exchange", (there, *strangers))
    assert answer.peers.keys() == {"n-2"}
    assert answer.problems.keys() == {"n-3", "n-4"}


async def test_an_all_reduce_over_three_workers_is_right_to_the_bit(workers: Workers) -> None:
    ring = await serving(workers, "n-1", "n-2", "n-3")
    answers = await asyncio.gather(*(ask(workers, peer.node, "reduce", ring) for peer in ring))
    assert [answer.problem for answer in answers] == ["", "", ""]
    assert all(answer.figures["allReduceMbS"] > 0 for answer in answers)


async def test_memory_is_measured_and_the_worker_stays_for_the_next_test(workers: Workers) -> None:
    (first,) = await serving(workers, "n-1")
    assert (await ask(workers, "n-1", "memory")).figures["memoryGbS"] > 0
    assert await serving(workers, "n-1") == (first,)


async def test_a_test_that_takes_too_long_gives_a_problem_and_ends_the_worker(workers: Workers) -> None:
    (first,) = await serving(workers, "n-1")
    answer = await ask(workers, "n-1", "memory", limit_s=0.001)
    assert "no result of the memory test" in answer.problem
    assert await serving(workers, "n-1") != (first,)


async def test_after_a_cancel_no_process_of_the_session_is_left(workers: Workers) -> None:
    await serving(workers, "n-1", "n-2")
    pids = [each._process.pid for each in workers._workers.values() if each._process]
    await workers.cancel(encode_cancel("dg-1"))
    assert len(pids) == 2
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


async def test_a_worker_that_died_is_replaced_by_the_next_test(workers: Workers) -> None:
    await serving(workers, "n-1")
    process = next(iter(workers._workers.values()))._process
    assert process is not None
    os.kill(process.pid, 9)
    await process.wait()
    assert (await ask(workers, "n-1", "serve")).served is not None


async def test_what_is_no_request_is_refused(workers: Workers) -> None:
    with pytest.raises(MalformedAnswerError, match="test 'dance' is unknown; there are memory"):
        await workers.test(b'{"test": "dance"}')


def test_the_address_is_the_one_on_the_way_to_nats() -> None:
    assert own_address("nats://127.0.0.1:4222") == "127.0.0.1"


def test_a_damaged_block_is_noticed() -> None:
    import socket

    one, other = socket.socketpair()
    with one, other:
        one.sendall(worker_script._HEAD.pack(b"P", 0, 3) + b"abc" + b"\0\0\0\0")
        with pytest.raises(ConnectionError, match="wrong checksum"):
            worker_script.receive(other)
