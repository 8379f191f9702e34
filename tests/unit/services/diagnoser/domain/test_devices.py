"""What tests of single nodes say of their devices."""

from __future__ import annotations

import pytest

from services.diagnoser.domain.book import Book
from services.diagnoser.domain.devices import WHOLE_NODE, Devices, Kind, Look, with_look
from services.diagnoser.domain.golden import GOLDEN
from services.diagnoser.domain.stages import Profile
from shared.diagnosis_wire import DeviceResult

GPUS = ("GPU-a", "GPU-b")
NODES = ("n-1", "n-2", "n-3", "n-4")
SOUND = DeviceResult(
    {"bf16Tflops": 700.0, "fp32Tflops": 50.0}, {"bf16 exact 512": GOLDEN["bf16 exact 512"], "bf16 like": "5eed"}
)


def devices_of(*changed: tuple[str, Look], gpu: bool = True, floors: dict[str, float] | None = None) -> Devices:
    """Four nodes with two sound devices each, and looks of some nodes instead of theirs."""
    looks = {}
    for node in {*NODES} - {node for node, _look in changed}:
        looks = with_look(looks, node, "compute", dict.fromkeys(GPUS, SOUND))
    for node, look in changed:
        looks = with_look(looks, node, "compute", look)
    profile = Profile(floors=floors or {})
    return Devices(looks, dict.fromkeys(NODES, Kind("EPYC, H200", gpu=gpu)), Book(), dict.fromkeys(NODES, profile))


def look(result: DeviceResult) -> Look:
    return {"GPU-a": SOUND, "GPU-b": result}


def figures(bf16: float) -> DeviceResult:
    return DeviceResult({**SOUND.figures, "bf16Tflops": bf16}, SOUND.checksums)


def checksums(**given: str) -> DeviceResult:
    named = {name.replace("_", " "): value for name, value in given.items()}
    return DeviceResult(SOUND.figures, {**SOUND.checksums, **named})


WRONG = [
    (figures(0.85 * 700), "GPU-b: bf16 multiplication is 595 TFLOP/s, 85 % of the 700 TFLOP/s"),
    (checksums(bf16_exact_512="9dcabc53"), "GPU-b: it computed wrong: bf16 exact 512 has checksum 9dcabc53 instead of"),
    (checksums(bf16_like="bad"), "GPU-b: it computes otherwise than 7 like devices: bf16 like has bad instead of 5eed"),
    (DeviceResult(problem="memory did not keep what was written"), "GPU-b: memory did not keep what was written"),
]


@pytest.mark.parametrize(("result", "words"), WRONG)
def test_what_is_wrong_twice_is_the_devices_problem_and_once_a_doubt(result: DeviceResult, words: str) -> None:
    twice = devices_of(("n-2", look(result)), ("n-2", look(result)))
    assert [problem for problem in twice.problems("n-2") if problem.startswith(words)] != []
    assert twice.is_broken("n-2")
    assert twice.looks_bad("n-2", "compute")
    once = devices_of(("n-2", look(result)), ("n-2", dict.fromkeys(GPUS, SOUND)))
    assert once.problems("n-2") == []
    assert len(once.doubts("n-2")) == 1
    assert twice.tests_of("n-2") == {"GPU-a": [False, False], "GPU-b": [True, True]}
    assert [twice.problems(node) + twice.doubts(node) for node in ("n-1", "n-3", "n-4")] == [[], [], []]


def test_a_slow_rate_without_a_gpu_is_a_doubt_also_where_it_is_seen_twice() -> None:
    slow = look(figures(0.5 * 700))
    devices = devices_of(("n-2", slow), ("n-2", slow), gpu=False)
    assert devices.problems("n-2") == []
    assert len(devices.doubts("n-2")) == 1


def test_a_floor_of_the_profile_is_a_problem_where_all_devices_are_alike_slow() -> None:
    devices = devices_of(floors={"bf16Tflops": 800.0})
    assert "at least 800 TFLOP/s are needed" in devices.figures("n-1")[0].why
    assert devices.enough("n-1", "compute") == {"bf16Tflops": 800.0}


def test_two_devices_that_disagree_say_nothing_of_each_other() -> None:
    looks = with_look({}, "n-1", "compute", {"GPU-a": SOUND, "GPU-b": checksums(bf16_like="bad")})
    devices = Devices(looks, {"n-1": Kind("EPYC, H200", gpu=True)}, Book())
    assert not devices.looks_bad("n-1", "compute")


def test_figures_name_device_unit_and_what_they_were_compared_with() -> None:
    figure = devices_of().figures("n-1")[0]
    assert (figure.name, figure.device, figure.unit) == ("bf16 multiplication", "GPU-a", "TFLOP/s")
    assert figure.against == "7 others of this run"


@pytest.mark.parametrize(("gpu", "bad"), [(True, True), (False, False)])
def test_what_cpus_of_a_machine_send_each_other_is_judged_by_a_floor_alone(gpu: bool, bad: bool) -> None:
    looks = {}
    for node, bandwidth in zip(NODES, (500.0, 510.0, 490.0, 30.0), strict=True):
        looks = with_look(looks, node, "local", {WHOLE_NODE: DeviceResult({"allReduceMbS": bandwidth})})
    kinds = dict.fromkeys(NODES, Kind("EPYC", gpu=gpu))
    assert Devices(looks, kinds, Book()).looks_bad("n-4", "local") is bad
    floors = dict.fromkeys(NODES, Profile(floors={"deviceAllReduceMbS": 100.0}))
    assert Devices(looks, kinds, Book(), floors).looks_bad("n-4", "local")
