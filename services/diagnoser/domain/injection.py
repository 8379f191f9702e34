"""Faults that an admin has a diagnosis pretend, to see that they are found: they change what was measured. Pure.

| fault | what it changes |
|---|---|
| `slow-link:A-B:PART` | bandwidth between the nodes is PART of what was measured, latency is over it |
| `flaky:NODE:PART` | tests of pairs with this node fail in this PART of the cases |
| `slow-device:NODE:DEVICE:PART` | the device computes at PART of its speed |
| `corrupt-gemm:NODE:DEVICE` | the device's multiplication has a wrong bit |
| `missing-device:NODE:DEVICE` | the device gives no answer |
| `read-only:NODE:PATH` | the directory cannot be written |
| `clock-skew:NODE:SECONDS` | the node's clock is off by so much |

Nodes are named by id or name. A report says which faults were pretended, and nothing else follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from services.diagnoser.domain.devices import Look
from services.diagnoser.domain.pairing import Pair
from services.diagnoser.domain.verdict import Reading
from shared.agent_wire import Measurement
from shared.diagnosis_wire import DeviceResult
from shared.errors import InvalidInputError, Violation

_EXAMPLES: Final[Mapping[str, str]] = {
    "slow-link": "slow-link:A-B:PART",
    "flaky": "flaky:NODE:PART",
    "slow-device": "slow-device:NODE:DEVICE:PART",
    "corrupt-gemm": "corrupt-gemm:NODE:DEVICE",
    "missing-device": "missing-device:NODE:DEVICE",
    "read-only": "read-only:NODE:PATH",
    "clock-skew": "clock-skew:NODE:SECONDS",
}
_NUMBERED: Final = frozenset({"slow-link", "flaky", "slow-device", "clock-skew"})
_MILLI: Final = 1000


@dataclass(frozen=True, slots=True)
class Injection:
    """One fault: its kind, the nodes by id, what it is about on them, and how much."""

    text: str
    kind: str
    nodes: tuple[str, ...]
    about: str = ""
    amount: float = 0.0


def read_injections(texts: Iterable[str], id_of: Mapping[str, str]) -> tuple[Injection, ...]:
    """The faults of these texts; `id_of` has the ids of the nodes' names. Raises InvalidInputError."""
    return tuple(_read(text, id_of) for text in texts)


def _read(text: str, id_of: Mapping[str, str]) -> Injection:
    kind, *fields = text.split(":")
    example = _EXAMPLES.get(kind)
    if example is None:
        raise _refusal(f"{text!r}: there is no fault {kind!r}; there are {', '.join(_EXAMPLES)}")
    if len(fields) != example.count(":"):
        raise _refusal(f"{text!r}: write it as {example}")
    nodes = _link(text, fields[0], id_of) if kind == "slow-link" else (_node(text, fields[0], id_of),)
    amount = _number(text, fields[-1]) if kind in _NUMBERED else 0.0
    if kind in _NUMBERED - {"clock-skew"} and not 0 < amount <= 1:
        raise _refusal(f"{text!r}: {fields[-1]} is no part; give a number over 0 and up to 1")
    return Injection(text, kind, nodes, fields[1] if len(fields) > 1 else "", amount)


def _node(text: str, name: str, id_of: Mapping[str, str]) -> str:
    if name not in id_of:
        raise _refusal(f"{text!r}: node {name!r} is not diagnosed; there are {', '.join(sorted(id_of)[:10])}")
    return id_of[name]


def _link(text: str, names: str, id_of: Mapping[str, str]) -> tuple[str, ...]:
    """Names may have dashes themselves: the one way to cut that gives two nodes."""
    dashes = [place for place, char in enumerate(names) if char == "-"]
    cuts = [(names[:at], names[at + 1 :]) for at in dashes if {names[:at], names[at + 1 :]} <= id_of.keys()]
    if not cuts:
        raise _refusal(f"{text!r}: {names!r} are no two nodes of this diagnosis with a dash between")
    return tuple(id_of[name] for name in cuts[0])


def _number(text: str, given: str) -> float:
    try:
        return float(given)
    except ValueError:
        raise _refusal(f"{text!r}: {given!r} is no number") from None


def _refusal(sentence: str) -> InvalidInputError:
    return InvalidInputError((Violation("/inject", "invalid-injection", sentence),))


# --- what they change ------------------------------------------------------------------------------------------------


def changed_reading(node: str, reading: Reading, injections: Iterable[Injection]) -> Reading:
    """The reading of the node as the faults make it look."""
    for each in injections:
        if node in each.nodes and each.kind in _ON_READINGS:
            reading = _ON_READINGS[each.kind](reading, each)
    return reading


def changed_look(node: str, look: Look, injections: Iterable[Injection]) -> Look:
    """What a test of the node's devices gave, as the faults make it look."""
    changed = dict(look)
    for each in injections:
        if node in each.nodes and each.kind in _ON_DEVICES and each.about in changed:
            changed[each.about] = _ON_DEVICES[each.kind](changed[each.about], each)
    return changed


def changed_bandwidth(pair: Pair, injections: Iterable[Injection]) -> float:
    """By what the bandwidth of a pair is multiplied, and its latency divided."""
    part = 1.0
    for each in injections:
        if each.kind == "slow-link" and set(each.nodes) == set(pair.nodes):
            part *= each.amount
    return part


def pretends_failure(pair: Pair, injections: Iterable[Injection], chance: Callable[[], float]) -> bool:
    """Whether a flaky node makes this test fail; `chance` gives numbers from 0 to 1."""
    flaky = [each for each in injections if each.kind == "flaky" and each.nodes[0] in pair.nodes]
    return any(chance() < each.amount for each in flaky)


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


def _skewed(reading: Reading, fault: Injection) -> Reading:
    measured = reading.measurement
    return _measured(reading, replace(measured, unix_ms=measured.unix_ms + int(fault.amount * _MILLI)))


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
    "corrupt-gemm": _corrupt_result,
    "missing-device": _no_result,
}
_ON_READINGS: Final[Mapping[str, Callable[[Reading, Injection], Reading]]] = {
    "slow-device": _slow_device,
    "corrupt-gemm": _corrupt,
    "missing-device": _missing,
    "read-only": _read_only,
    "clock-skew": _skewed,
}
