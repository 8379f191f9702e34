"""What pretended faults change, and that they leave everything else as it was measured."""

from __future__ import annotations

from services.diagnoser.domain.injection import Injection, read_injections
from services.diagnoser.domain.pairing import Pair
from services.diagnoser.domain.pretending import (
    changed_bandwidth,
    changed_gang,
    changed_look,
    changed_reading,
    is_silent,
    pretended_problem,
)
from services.diagnoser.domain.readings import Reading
from shared.agent_wire import Gpu
from shared.diagnosis_wire import DeviceResult, TestAnswer
from tests.support.probes import measurement

PAIR = Pair.of("n-1", "n-2")
SOUND = Reading(measurement(gpus=(Gpu("GPU-1", "H200"),)), 1_000_000, 1_000_000)


def faults(*texts: str) -> tuple[Injection, ...]:
    return read_injections(texts, {f"n-{number}": f"n-{number}" for number in range(1, 4)})


def test_a_slow_link_is_slow_whichever_node_is_named_first() -> None:
    assert changed_bandwidth(PAIR, faults("slow-link:n-2-n-1:0.3")) == 0.3
    assert changed_bandwidth(Pair.of("n-2", "n-3"), faults("slow-link:n-2-n-1:0.3")) == 1.0


def test_a_flaky_node_fails_its_part_of_the_tests() -> None:
    flaky = faults("flaky:n-1:0.25")
    assert pretended_problem(PAIR, flaky, lambda: 0.2) == "the exchange failed"
    assert not pretended_problem(PAIR, flaky, lambda: 0.25)
    assert not pretended_problem(Pair.of("n-2", "n-3"), flaky, lambda: 0.2)


def test_a_damaged_link_damages_every_test_of_its_pair_alone() -> None:
    damaged = faults("damaged-link:n-1-n-2")
    assert "damaged" in pretended_problem(PAIR, damaged, lambda: 0.9)
    assert not pretended_problem(Pair.of("n-1", "n-3"), damaged, lambda: 0.0)


def test_facts_are_changed_on_the_node_that_is_named() -> None:
    pretended = faults("full-disk:n-1", "unreachable:n-1:/mnt/x", "read-only:n-1:/mnt/y", "memory-errors:n-1:GPU-1")
    changed = changed_reading("n-1", SOUND, pretended).measurement
    assert changed.disk_free_bytes == 0
    assert (changed.unreachable, changed.read_only) == (("/mnt/x",), ("/mnt/y",))
    assert [gpu.uncorrected_errors for gpu in changed.gpus] == [1]
    assert changed_reading("n-2", SOUND, pretended) == SOUND


def test_slow_memory_is_slow_in_the_test_of_memory_alone() -> None:
    look = {"GPU-1": DeviceResult({"rate": 10.0}), "GPU-2": DeviceResult({"rate": 10.0})}
    slow = faults("slow-memory:n-1:GPU-1:0.5")
    assert changed_look("n-1", "memory", look, slow)["GPU-1"].figures == {"rate": 5.0}
    assert changed_look("n-1", "memory", look, slow)["GPU-2"].figures == {"rate": 10.0}
    assert changed_look("n-1", "compute", look, slow) == look
    assert changed_look("n-2", "memory", look, slow) == look


def test_a_collective_is_wrong_on_the_node_that_is_named() -> None:
    answers = {"n-1": TestAnswer(figures={"allReduceMbS": 1.0}), "n-2": TestAnswer()}
    changed = changed_gang(answers, faults("wrong-collective:n-1", "wrong-collective:n-3"))
    assert (changed["n-1"].problem, changed["n-2"]) == ("the result of the all-reduce is wrong", TestAnswer())
    assert set(changed) == {"n-1", "n-2"}


def test_a_silent_node_is_the_one_that_is_named() -> None:
    assert is_silent("n-1", faults("silent:n-1"))
    assert not is_silent("n-2", faults("silent:n-1"))
