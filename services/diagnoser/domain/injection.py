"""Faults that an admin has a diagnosis pretend, to see that they are found: how they are written. Pure.

| fault | what it changes |
|---|---|
| `slow-link:A-B:PART` | bandwidth between the nodes is PART of what was measured, latency is over it |
| `damaged-link:A-B` | blocks between the nodes are damaged |
| `flaky:NODE:PART` | tests of pairs with this node fail in this PART of the cases |
| `slow-device:NODE:DEVICE:PART` | the device computes, and reads its memory, at PART of its speed |
| `slow-memory:NODE:DEVICE:PART` | the device reads its memory at PART of its speed |
| `corrupt-gemm:NODE:DEVICE` | the device's multiplication has a wrong bit |
| `missing-device:NODE:DEVICE` | the device gives no answer |
| `memory-errors:NODE:DEVICE` | the driver tells of an uncorrected memory error of the GPU |
| `wrong-collective:NODE` | the result of the gang's collectives is wrong on the node |
| `read-only:NODE:PATH` | the directory cannot be written |
| `unreachable:NODE:PATH` | the directory cannot be read |
| `full-disk:NODE` | there is no room on the disk |
| `clock-skew:NODE:SECONDS` | the node's clock is off by so much |
| `silent:NODE` | the node's agent gives no answer |

Nodes are named by id or name. A report says which faults were pretended, and nothing else follows from it. What they
change is in `pretending`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from shared.errors import InvalidInputError, TrainmasterError, Violation

_EXAMPLES: Final[Mapping[str, str]] = {
    "slow-link": "slow-link:A-B:PART",
    "damaged-link": "damaged-link:A-B",
    "flaky": "flaky:NODE:PART",
    "slow-device": "slow-device:NODE:DEVICE:PART",
    "slow-memory": "slow-memory:NODE:DEVICE:PART",
    "corrupt-gemm": "corrupt-gemm:NODE:DEVICE",
    "missing-device": "missing-device:NODE:DEVICE",
    "memory-errors": "memory-errors:NODE:DEVICE",
    "wrong-collective": "wrong-collective:NODE",
    "read-only": "read-only:NODE:PATH",
    "unreachable": "unreachable:NODE:PATH",
    "full-disk": "full-disk:NODE",
    "clock-skew": "clock-skew:NODE:SECONDS",
    "silent": "silent:NODE",
}
_OF_LINKS: Final = frozenset({"slow-link", "damaged-link"})
_OF_SEVERAL_NODES: Final = frozenset({"flaky", "wrong-collective"})
_OF_DEVICES: Final = frozenset({"slow-device", "slow-memory", "corrupt-gemm", "missing-device", "memory-errors"})
_OF_GPUS: Final = frozenset({"memory-errors"})
_OF_PLACES: Final = frozenset({"read-only", "unreachable"})
_PARTS: Final = frozenset({"slow-link", "flaky", "slow-device", "slow-memory"})
_DAY_S: Final = 86_400
_CPU_PREFIX: Final = "cpu-"


@dataclass(frozen=True, slots=True)
class Injection:
    """One fault: its kind, the nodes by id, what it is about on them, and how much."""

    text: str
    kind: str
    nodes: tuple[str, ...]
    about: str = ""
    amount: float = 0.0


def read_injections(texts: Iterable[str], id_of: Mapping[str, str]) -> tuple[Injection, ...]:
    """The faults of these texts; `id_of` has the ids of nodes' names. Raises InvalidInputError with all mistakes."""
    found: list[Injection] = []
    mistakes: list[Violation] = []
    for place, text in enumerate(texts):
        try:
            found.append(_read(text, id_of))
        except _MistakeError as mistake:
            mistakes.append(Violation(f"/inject/{place}", "invalid-injection", f"{text!r}: {mistake}"))
    if mistakes:
        raise InvalidInputError(tuple(mistakes))
    return tuple(found)


class NoSuchDeviceError(TrainmasterError):
    """A fault is pretended of a device that its node does not have."""

    code = "invalid-injection"


def check_devices(injections: Iterable[Injection], devices_of: Mapping[str, Iterable[str]]) -> None:
    """Raise NoSuchDeviceError for faults of devices that their nodes do not have; silent nodes are not in it."""
    of_devices = (each for each in injections if each.kind in _OF_DEVICES and each.nodes[0] in devices_of)
    mistakes = [
        _no_such_device(each, devices)
        for each in of_devices
        if each.about not in (devices := _that_can_have_it(each, devices_of[each.nodes[0]]))
    ]
    if mistakes:
        raise NoSuchDeviceError("; ".join(mistakes))


class _MistakeError(Exception):
    """What is wrong with one text."""


def _read(text: str, id_of: Mapping[str, str]) -> Injection:
    kind, *fields = text.split(":")
    example = _EXAMPLES.get(kind)
    if example is None:
        raise _MistakeError(f"there is no fault {kind!r}; there are {', '.join(_EXAMPLES)}")
    if len(fields) != example.count(":") or not all(fields):
        raise _MistakeError(f"write it as {example}")
    if kind in _OF_PLACES and not fields[-1].startswith("/"):
        raise _MistakeError(f"{fields[-1]!r} is no absolute path; give the directory from the root, such as /data")
    if kind in _OF_SEVERAL_NODES and len(set(id_of.values())) < 2:
        raise _MistakeError("it shows in tests of several nodes, and only one is diagnosed; name more nodes")
    nodes = _link(fields[0], id_of) if kind in _OF_LINKS else (_node(fields[0], id_of),)
    return Injection(text, kind, nodes, fields[1] if len(fields) > 1 else "", _amount(kind, fields[-1]))


def _amount(kind: str, given: str) -> float:
    if kind == "clock-skew":
        seconds = _number(given)
        if not abs(seconds) <= _DAY_S:
            raise _MistakeError(f"{given} s are too many; give up to a day, {_DAY_S} s, to either side")
        return seconds
    if kind not in _PARTS:
        return 0.0
    part = _number(given)
    if not 0 < part <= 1:
        raise _MistakeError(f"{given} is no part; give a number over 0 and up to 1")
    return part


def _node(name: str, id_of: Mapping[str, str]) -> str:
    if name not in id_of:
        raise _MistakeError(f"node {name!r} is not diagnosed; there are {', '.join(sorted(id_of)[:10])}")
    return id_of[name]


def _link(names: str, id_of: Mapping[str, str]) -> tuple[str, ...]:
    """Names may have dashes themselves: the one way to cut that gives two nodes."""
    dashes = [place for place, char in enumerate(names) if char == "-"]
    cuts = [(names[:at], names[at + 1 :]) for at in dashes if {names[:at], names[at + 1 :]} <= id_of.keys()]
    pairs = {frozenset(id_of[name] for name in cut): cut for cut in cuts}
    if len(pairs) > 1:
        raise _MistakeError(f"{names!r} can be cut into two nodes in several ways; give their ids")
    if not pairs or len(next(iter(pairs))) < 2:
        raise _MistakeError(f"{names!r} are no two nodes of this diagnosis with a dash between")
    return tuple(id_of[name] for name in next(iter(pairs.values())))


def _number(given: str) -> float:
    try:
        number = float(given)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise _MistakeError(f"{given!r} is no number")
    return number


def _that_can_have_it(fault: Injection, devices: Iterable[str]) -> list[str]:
    """The devices that can have the fault: of errors of its memory only a GPU is asked."""
    return sorted(each for each in devices if fault.kind not in _OF_GPUS or not each.startswith(_CPU_PREFIX))


def _no_such_device(fault: Injection, devices: list[str]) -> str:
    wanted = "GPU" if fault.kind in _OF_GPUS else "device"
    return f"{fault.text!r}: the node has no {wanted} {fault.about!r}; it has {', '.join(devices[:20]) or 'none'}"
