"""Answering requests for probes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from services.agent.prober import Prober, look_at_places, measure_machine, read_faults
from services.diagnoser.domain.facts import Floors
from services.diagnoser.domain.readings import Reading
from services.diagnoser.domain.verdict import GOLDEN_CHECKSUM, judge
from shared.agent_facts import Port
from shared.agent_wire import MalformedAnswerError, decode_probe_answer, encode_probe_request
from tests.support.probes import measurement


class Machine:
    """A measurement that takes until `done` is set."""

    def __init__(self, result=measurement()) -> None:  # noqa: B008  # a frozen value
        self.begun = 0
        self.done = asyncio.Event()
        self.result = result

    async def measure(self):
        self.begun += 1
        await self.done.wait()
        return self.result


async def asked(prober: Prober, *nodes: str):
    """What is measured, when it was asked for and answered left aside."""
    found = decode_probe_answer(await prober.answer(encode_probe_request(nodes)))
    return {node: replace(each, heard_unix_ms=0, sent_unix_ms=0) for node, each in found.items()}


async def test_an_answer_says_when_its_question_was_heard_and_when_it_was_sent():
    machine, clock = Machine(), iter([5_000, 5_700])
    machine.done.set()
    prober = Prober(machine.measure, {}, look_at_places, lambda: next(clock))
    measured = decode_probe_answer(await prober.answer(encode_probe_request(["n-1"])))["n-1"]
    assert (measured.heard_unix_ms, measured.sent_unix_ms) == (5_000, 5_700)


async def test_one_measurement_answers_for_every_node_of_the_machine():
    machine = Machine()
    machine.done.set()
    assert await asked(Prober(machine.measure, {}, look_at_places), "n-1", "n-2") == {
        "n-1": measurement(),
        "n-2": measurement(),
    }
    assert machine.begun == 1


async def test_whoever_asks_while_one_is_measured_shares_the_next():
    machine = Machine()
    prober = Prober(machine.measure, {}, look_at_places)
    first = asyncio.create_task(asked(prober, "n-1"))
    while not machine.begun:
        await asyncio.sleep(0)
    others = [asyncio.create_task(asked(prober, "n-1")) for _ in range(5)]
    await asyncio.sleep(0)
    assert machine.begun == 1
    machine.done.set()
    await asyncio.gather(first, *others)
    assert machine.begun == 2


async def test_a_failed_measurement_is_an_answer_without_nodes():
    machine = Machine(result=None)
    machine.done.set()
    assert await asked(Prober(machine.measure, {}, look_at_places), "n-1") == {}


async def test_tests_may_make_a_node_look_bad():
    machine = Machine()
    machine.done.set()
    faults = read_faults("n-1=checksum, n-2=disk,n-3=silent,n-4=flood,")
    found = await asked(Prober(machine.measure, faults, look_at_places), "n-1", "n-2", "n-3", "n-4")
    assert set(found) == {"n-1", "n-2", "n-4"}
    assert GOLDEN_CHECKSUM not in found["n-1"].checksums
    assert found["n-2"].disk_free_bytes == 0
    assert found["n-4"] == measurement()


async def test_other_bytes_are_refused():
    with pytest.raises(MalformedAnswerError):
        await Prober(Machine().measure, {}, look_at_places).answer(b"?")


async def test_this_machine_computes_right(tmp_path):
    measured = await measure_machine(tmp_path)
    assert measured is not None
    lenient = Floors(0, 0, 0, 0)
    assert judge("n-1", Reading(measured, measured.unix_ms, measured.unix_ms), (), lenient).problems == ()
    assert measured.memory_bytes >= measured.memory_free_bytes > 0


async def test_directories_are_written_to_and_one_that_refuses_is_told(tmp_path):
    found = await look_at_places({str(tmp_path): True, "/proc": True, "/proc/self": False})
    assert found == {"unreachable": (), "read_only": ("/proc",)}
    assert list(tmp_path.iterdir()) == []


async def test_how_far_counters_of_ports_have_grown_is_told_from_the_look_before():
    machine = Machine()
    machine.done.set()
    prober = Prober(machine.measure, {}, look_at_places)
    looks = [(1_000, {"symbol_error": 5, "link_downed": 0}), (61_000, {"symbol_error": 7, "link_downed": 1})]
    looks.append((121_000, {"symbol_error": 0, "link_downed": 1}))
    found = []
    for unix_ms, errors in looks:
        machine.result = measurement(unix_ms=unix_ms, ports=(Port("mlx5_0/1", errors=errors),))
        found += (await asked(prober, "n-1"))["n-1"].ports
    assert [port.grown for port in found] == [{}, {"symbol_error": 2, "link_downed": 1}, {}]
    assert [port.grown_s for port in found] == [0.0, 60.0, 60.0]
