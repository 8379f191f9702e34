"""What pretended faults change of what was measured. Pure; how they are written is in `injection`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from services.diagnoser.domain.devices import Look
from services.diagnoser.domain.injection import Injection
from services.diagnoser.domain.pairing import Pair
from services.diagnoser.domain.readings import Reading
from shared.agent_wire import Measurement
from shared.diagnosis_wire import DeviceResult, TestAnswer, TestName

_MILLI: Final = 1000


def is_silent(node: str, injections: Iterable[Injection]) -> bool:
    """Whether the node's agent is to give no answer."""
    return any(each.kind == "silent" and node in each.nodes for each in injections)


def changed_reading(node: str, reading: Reading, injections: Iterable[Injection]) -> Reading:
    """The reading of the node as the faults make it look."""
    for each in injections:
        if node in each.nodes and each.kind in _ON_READINGS:
            reading = _ON_READINGS[each.kind](reading, each)
    return reading


def changed_look(node: str, test: TestName, look: Look, injections: Iterable[Injection]) -> Look:
    """What a test of the node's devices gave, as the faults make it look."""
    changed = dict(look)
    for each in injections:
        is_of_test = test == "memory" or each.kind != "slow-memory"
        if node in each.nodes and each.kind in _ON_DEVICES and is_of_test and each.about in changed:
            changed[each.about] = _ON_DEVICES[each.kind](changed[each.about], each)
    return changed


def changed_bandwidth(pair: Pair, injections: Iterable[Injection]) -> float:
    """By what the bandwidth of a pair is multiplied, and its latency divided."""
    part = 1.0
    for each in injections:
        if each.kind == "slow-link" and set(each.nodes) == set(pair.nodes):
            part *= each.amount
    return part


def pretended_problem(pair: Pair, injections: Iterable[Injection], chance: Callable[[], float]) -> str:
    """What is to go wrong with this test of a pair, if anything; `chance` gives numbers from 0 to 1."""
    for each in injections:
        if each.kind == "damaged-link" and set(each.nodes) == set(pair.nodes):
            return "a block was damaged on the way"
        if each.kind == "flaky" and each.nodes[0] in pair.nodes and chance() < each.amount:
            return "the exchange failed"
    return ""


def changed_gang(answers: Mapping[str, TestAnswer], injections: Iterable[Injection]) -> dict[str, TestAnswer]:
    """What collectives of the gang gave on each node, as the faults make it look."""
    wrong = {each.nodes[0] for each in injections if each.kind == "wrong-collective"} & answers.keys()
    return {**answers, **dict.fromkeys(wrong, TestAnswer(problem="the result of the all-reduce is wrong"))}


def _measured(reading: Reading, changed: Measurement) -> Reading:
    return replace(reading, measurement=changed)


def _slow_device(reading: Reading, fault: Injection) -> Reading:
    measured = reading.measurement
    slower = {name: ms / (fault.amount if name == fault.about else 1) for name, ms in measured.device_ms.items()}
    return _measured(reading, replace(measured, device_ms=slower))


def _corrupt(reading: Reading, fault: Injection) -> Reading:
    """One bit of the checksum of one CPU is another; of a GPU the probe has none."""
    measured, cpu = reading.measurement, _cpu(fault)
    if cpu not in measured.cpus:
        return reading
    result = next((result for result, cpus in measured.checksums.items() if cpu in cpus), "0")
    wrong = f"{int(result.partition('/')[0], 16) ^ 1:08x}"
    return _measured(reading, replace(measured, checksums={**_without(measured, cpu), wrong: (cpu,)}))


def _without(measured: Measurement, cpu: int) -> dict[str, tuple[int, ...]]:
    """The checksums of all other CPUs."""
    left = {result: tuple(each for each in cpus if each != cpu) for result, cpus in measured.checksums.items()}
    return {result: cpus for result, cpus in left.items() if cpus}


def _missing(reading: Reading, fault: Injection) -> Reading:
    measured, cpu = reading.measurement, _cpu(fault)
    gpus = tuple(gpu for gpu in measured.gpus if gpu.id != fault.about)
    return _measured(reading, replace(measured, checksums=_without(measured, cpu), gpus=gpus))


def _cpu(fault: Injection) -> int:
    number = fault.about.removeprefix("cpu-")
    return int(number) if number.isdecimal() else -1


def _read_only(reading: Reading, fault: Injection) -> Reading:
    measured = reading.measurement
    return _measured(reading, replace(measured, read_only=(*measured.read_only, fault.about)))


def _unreachable(reading: Reading, fault: Injection) -> Reading:
    measured = reading.measurement
    return _measured(reading, replace(measured, unreachable=(*measured.unreachable, fault.about)))


def _full(reading: Reading, _fault: Injection) -> Reading:
    return _measured(reading, replace(reading.measurement, disk_free_bytes=0))


def _memory_errors(reading: Reading, fault: Injection) -> Reading:
    measured = reading.measurement
    gpus = (replace(gpu, uncorrected_errors=1) if gpu.id == fault.about else gpu for gpu in measured.gpus)
    return _measured(reading, replace(measured, gpus=tuple(gpus)))


def _skewed(reading: Reading, fault: Injection) -> Reading:
    measured = reading.measurement
    by_ms = int(fault.amount * _MILLI)
    told = (measured.unix_ms, measured.heard_unix_ms, measured.sent_unix_ms)
    unix_ms, heard_unix_ms, sent_unix_ms = (at_ms and at_ms + by_ms for at_ms in told)
    changed = replace(measured, unix_ms=unix_ms, heard_unix_ms=heard_unix_ms, sent_unix_ms=sent_unix_ms)
    return _measured(reading, changed)


def _slow_result(result: DeviceResult, fault: Injection) -> DeviceResult:
    return replace(result, figures={name: value * fault.amount for name, value in result.figures.items()})


def _corrupt_result(result: DeviceResult, _fault: Injection) -> DeviceResult:
    """One bit of each product is another."""
    wrong = {name: f"{int(given, 16) ^ 1:08x}" for name, given in result.checksums.items()}
    return replace(result, checksums=wrong)


def _no_result(_result: DeviceResult, _fault: Injection) -> DeviceResult:
    return DeviceResult(problem="it gave no result")


_ON_DEVICES: Final[Mapping[str, Callable[[DeviceResult, Injection], DeviceResult]]] = {
    "slow-device": _slow_result,
    "slow-memory": _slow_result,
    "corrupt-gemm": _corrupt_result,
    "missing-device": _no_result,
}
_ON_READINGS: Final[Mapping[str, Callable[[Reading, Injection], Reading]]] = {
    "slow-device": _slow_device,
    "corrupt-gemm": _corrupt,
    "missing-device": _missing,
    "memory-errors": _memory_errors,
    "read-only": _read_only,
    "unreachable": _unreachable,
    "full-disk": _full,
    "clock-skew": _skewed,
}
