"""Workers of the diagnosis: real processes that test devices, and each other over loopback."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.agent.bench import Bench
from services.agent.deep import DeepTests
from services.agent.grounds import Means
from services.agent.worker import tcp
from services.agent.workers import Workers, own_address
from services.diagnoser.domain.golden import GOLDEN
from shared.diagnosis_wire import (
    Peer,
    TestAnswer,
    TestName,
    TestRequest,
    decode_test_request,
    encode_test_request,
)
from shared.tasks import end
from tests.support.grounds import Taken

pytest.importorskip("torch")
NODES = ("n-1", "n-2", "n-3")


@pytest.fixture
async def workers() -> AsyncIterator[Workers]:
    made = Workers(Means(lambda: "127.0.0.1"))
    yield made
    await made.close()


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncIterator[Workers]:
    """Workers under an interpreter without PyTorch."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    made = Workers(Means(lambda: "127.0.0.1", str(bare)))
    yield made
    await made.close()


async def ask(workers: Workers, node: str, test: TestName, **more: Any) -> TestAnswer:
    request = TestRequest(
        "dg-1", node, test, **{"limit_s": 20, "work_s": 0.1, "transport": "gloo", "round": "r-1", **more}
    )
    return await workers.answer(decode_test_request(encode_test_request(request)))


async def serving(workers: Workers, *nodes: str) -> tuple[Peer, ...]:
    served = [(await ask(workers, node, "serve")).served for node in nodes]
    return tuple(peer for peer in served if peer is not None)


async def all_of(workers: Workers, peers: tuple[Peer, ...], test: TestName, **more: Any) -> list[TestAnswer]:
    return await asyncio.gather(*(ask(workers, peer.node, test, peers=peers, **more) for peer in peers))


def pids(workers: Workers) -> list[int]:
    """The processes that there are, those that they forked included."""
    leads = [each._process.pid for each in workers._sessions.values() if each._process]
    return leads + [pid for lead in leads for pid in children(lead)]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_devices_pairs_and_gangs_are_tested_by_one_process_that_imports_pytorch_once(workers: Workers) -> None:
    begun = await ask(workers, "n-1", "begin")
    assert (begun.problem, begun.about["transport"], begun.about["python"]) == ("", "gloo", sys.executable)
    assert begun.about["torch"]

    computed = (await ask(workers, "n-1", "compute")).devices
    assert computed.keys() == (await ask(workers, "n-1", "memory")).devices.keys()
    for result in computed.values():
        exact = {name: each for name, each in result.checksums.items() if name in GOLDEN}
        assert exact == {name: GOLDEN[name] for name in ("bf16 exact 512", "fp32 exact 512")}
        assert min(result.figures.values()) > 0
        assert result.problem == ""

    peers = await serving(workers, *NODES)
    first, second = await all_of(workers, peers[:2], "exchange")
    assert (first.problem, second.problem) == ("", "")
    assert first.figures.keys() == {"bandwidthMbS", "latencyUs"}

    for answer in await all_of(workers, peers, "gang", round="r-2", sizes=(1 << 18,)):
        assert answer.problem == ""
        assert min(answer.figures["allReduceMbS"], answer.figures["allToAllMbS"]) > 0
    (one,) = await all_of(workers, peers[:1], "local", round="r-3", sizes=(1 << 18,))
    assert one.problem == ""
    assert len([pid for pid in pids(workers) if pid]) <= 1 + 2 * len(NODES)


async def test_a_test_that_comes_behind_the_end_of_its_session_starts_no_process(workers: Workers) -> None:
    await workers.cancel("dg-1")
    assert (await ask(workers, "n-1", "begin")).problem == "the diagnosis is over"
    assert pids(workers) == []


async def test_a_partner_that_never_comes_is_a_result_within_the_limit(workers: Workers) -> None:
    peers = await serving(workers, "n-1", "n-2")
    answer = await ask(workers, "n-1", "exchange", peers=peers, limit_s=2)
    assert answer.problem
    peers = await serving(workers, "n-1", "n-2")
    assert (await all_of(workers, peers, "exchange", round="r-2"))[0].problem == ""


async def test_a_device_whose_process_dies_is_named_and_the_next_test_starts_a_new_one(plain: Workers) -> None:
    await ask(plain, "n-1", "begin")
    lead, rank, *_ = pids(plain)
    os.kill(rank, signal.SIGSTOP)
    waiting = asyncio.create_task(ask(plain, "n-1", "memory"))
    await asyncio.sleep(0)
    await ask(plain, "n-2", "begin")  # answered after the device of n-1 was asked
    os.kill(rank, signal.SIGKILL)
    assert "its process ended (-9)" in (await waiting).problem
    assert (await ask(plain, "n-1", "memory")).problem == ""
    assert pids(plain)[0] == lead


async def test_a_test_that_takes_too_long_ends_the_processes_of_its_node_alone(plain: Workers) -> None:
    first, second = await serving(plain, "n-1", "n-2")
    for pid in children(pids(plain)[0])[:1]:
        os.kill(pid, signal.SIGSTOP)
    answer = await ask(plain, "n-1", "serve", limit_s=0.2)
    assert "letting other nodes in gave no result within 0.2 s" in answer.problem
    assert (await serving(plain, "n-1", "n-2"))[0] != first
    assert (await serving(plain, "n-2")) == (second,)


async def test_after_a_cancel_no_process_of_the_session_is_left(plain: Workers) -> None:
    await serving(plain, "n-1", "n-2")
    there = pids(plain)
    await plain.cancel("dg-1")
    assert len(there) > 2
    while any(is_alive(pid) for pid in there):
        await asyncio.sleep(0.01)


async def test_whoever_waits_for_a_test_that_is_cancelled_is_told_at_once(plain: Workers) -> None:
    peers = await serving(plain, "n-1", "n-2")
    waiting = asyncio.create_task(ask(plain, "n-1", "gang", peers=peers, transport="tcp"))
    while plain._sessions["dg-1"]._waiting == {}:
        await asyncio.sleep(0.01)
    await plain.cancel("dg-1")
    assert (await waiting).problem == "the processes of the test ended"


async def test_processes_end_with_the_one_that_forked_them(plain: Workers) -> None:
    await serving(plain, "n-1")
    lead, *ranks = pids(plain)
    process = plain._sessions["dg-1"]._process
    os.kill(lead, signal.SIGKILL)
    assert process is not None
    await process.wait()
    while any(is_alive(pid) for pid in ranks):
        await asyncio.sleep(0.01)
    assert (await serving(plain, "n-1")) != ()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_without_pytorch_the_node_is_tested_over_tcp_and_says_so(plain: Workers) -> None:
    begun = await ask(plain, "n-1", "begin")
    assert begun.about["transport"] == "tcp"
    assert "has no PyTorch: No module named 'torch'" in begun.about["without"]
    (memory,) = (await ask(plain, "n-1", "memory")).devices.values()
    assert memory.figures["memoryGbS"] > 0
    peers = await serving(plain, *NODES)
    first, second = await all_of(plain, peers[:2], "exchange", transport="tcp")
    assert first.figures.keys() == {"latencyUs", "bandwidthMbS"}
    assert (second.problem, second.figures) == ("", {})
    answers = await all_of(plain, peers, "gang", transport="tcp", round="r-2")
    assert [answer.problem for answer in answers] == ["", "", ""]
    assert all(answer.figures["allReduceMbS"] > 0 for answer in answers)
    stranger = (peers[0], replace(peers[1], token="0" * 32))
    assert (await ask(plain, "n-1", "exchange", peers=stranger, transport="tcp")).problem


async def test_an_interpreter_that_is_not_there_is_a_result() -> None:
    workers = Workers(Means(lambda: "127.0.0.1", "/nowhere/python"))
    assert "/nowhere/python" in (await ask(workers, "n-1", "begin")).problem


def test_the_address_is_the_one_on_the_way_to_nats() -> None:
    assert own_address("nats://127.0.0.1:4222") == "127.0.0.1"


def test_a_damaged_block_is_noticed() -> None:
    one, other = socket.socketpair()
    with one, other:
        one.sendall(tcp._HEAD.pack(b"P", 0, 3) + b"abc" + b"\0\0\0\0")
        with pytest.raises(ConnectionError, match="wrong checksum"):
            tcp.receive(other)


@pytest.fixture
async def taken(tmp_path: Path) -> AsyncIterator[tuple[Workers, Taken]]:
    bare, grounds = tmp_path / "python", Taken()
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    made = Workers(Means(lambda: "127.0.0.1", str(bare), grounds))
    watching = asyncio.create_task(Bench(made, DeepTests(grounds), grounds).watch())
    yield made, grounds
    await end(watching)
    await made.close()


async def test_tests_on_gpus_end_at_once_where_a_pod_comes_that_needs_them_and_the_node_is_excused(
    taken: tuple[Workers, Taken],
) -> None:
    workers, grounds = taken
    (peer,) = [(await ask(workers, "n-1", "serve", devices=("GPU-a",))).served]
    assert peer is not None
    there = pids(workers)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        absent = replace(peer, node="n-2", port=silent.getsockname()[1])
        waiting = asyncio.create_task(
            ask(workers, "n-1", "gang", peers=(peer, absent), transport="tcp", devices=("GPU-a",))
        )
        while not workers._sessions["dg-1"]._waiting:
            await asyncio.sleep(0.01)
        grounds.why = "pod ns/x may get any GPU of the node"
        grounds.news.set()
        assert await waiting == TestAnswer(excuse=grounds.why)
    while any(map(is_alive, there)):
        await asyncio.sleep(0.01)
    grounds.why = ""
    assert (await ask(workers, "n-1", "serve")).excuse == "pod ns/x may get any GPU of the node"


async def test_tests_on_cpus_go_on_where_a_pod_comes_for_gpus(taken: tuple[Workers, Taken]) -> None:
    workers, grounds = taken
    await ask(workers, "n-1", "serve")
    grounds.why = "pod ns/x may get any GPU of the node"
    grounds.news.set()
    assert (await ask(workers, "n-1", "memory")).problem == ""
    assert (await ask(workers, "n-1", "memory", devices=("GPU-a",))) == TestAnswer(excuse=grounds.why)


async def test_a_process_that_ended_for_want_of_the_agents_memory_is_no_fault_of_the_node(
    taken: tuple[Workers, Taken],
) -> None:
    workers, grounds = taken
    await ask(workers, "n-1", "begin")
    _lead, rank = pids(workers)
    os.kill(rank, signal.SIGSTOP)
    waiting = asyncio.create_task(ask(workers, "n-1", "memory"))
    while not workers._sessions["dg-1"]._waiting:
        await asyncio.sleep(0.01)
    grounds.killed = 1
    os.kill(rank, signal.SIGKILL)
    answer = await waiting
    assert (answer.problem, answer.excuse) == (
        "",
        "the agent's own memory was used up (agent.resources of the chart)",
    )


async def test_with_too_little_memory_pytorch_is_not_imported(taken: tuple[Workers, Taken]) -> None:
    workers, grounds = taken
    grounds.short = "the agent has 10 MiB of memory left"
    about = (await ask(workers, "n-1", "begin")).about
    assert (about["transport"], about["without"]) == ("tcp", "the agent has 10 MiB of memory left")


async def test_a_session_of_an_agent_that_was_started_anew_is_excused(plain: Workers) -> None:
    assert (await ask(plain, "n-1", "serve", begun=True)).excuse == "the agent was started anew during the diagnosis"
    assert pids(plain) == []
