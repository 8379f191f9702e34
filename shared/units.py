"""Durations, memory and CPU amounts as users write them, and as integers inside.

Durations are Go-style (`90s`, `2h30m`) and become seconds; memory is `512Mi` or `4Gi` and becomes bytes; CPU is cores
(`2`, `0.5`) or millicores (`500m`) and becomes millicores. Every parser raises ValueError with what it would accept.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final, NewType

Bytes = NewType("Bytes", int)
MilliCores = NewType("MilliCores", int)

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

_DURATION = re.compile(r"(?=\d)(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII)
_MEMORY = re.compile(r"(\d{1,9})(Mi|Gi)", re.ASCII)
_CPU = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(m?)", re.ASCII)
_MAX_CPU_MILLIS: Final = 10_000_000
_MAX_DURATION_S: Final = 366 * 24 * 3600


def parse_duration_s(text: str) -> float:
    """Seconds of a Go-style duration such as `90s`, `30m`, `2h30m`, `500ms`."""
    match = _DURATION.fullmatch(text) if len(text) <= 32 else None
    if match is None or not any(match.groups()):
        raise ValueError(f"{text[:40]!r} is no duration; write hours, minutes and seconds as in 90s, 30m or 2h30m")
    hours, minutes, seconds, millis = (int(group or 0) for group in match.groups())
    total = hours * 3600 + minutes * 60 + seconds + millis / 1000
    if total > _MAX_DURATION_S:
        raise ValueError(f"{text!r} is longer than 366 days, the longest duration accepted")
    return total


def format_duration(seconds: float) -> str:
    """The shortest Go-style text of a duration, to the millisecond."""
    millis = round(seconds * 1000)
    hours, millis = divmod(millis, 3_600_000)
    minutes, millis = divmod(millis, 60_000)
    whole, millis = divmod(millis, 1000)
    parts = [f"{value}{unit}" for value, unit in ((hours, "h"), (minutes, "m"), (whole, "s"), (millis, "ms")) if value]
    return "".join(parts) or "0s"


def parse_memory(text: str) -> Bytes:
    """Bytes of an amount such as `512Mi` or `4Gi`."""
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is no memory amount; write it as in 512Mi or 4Gi")
    return Bytes(int(match[1]) * (MIB if match[2] == "Mi" else GIB))


def format_bytes(amount: int) -> str:
    """Bytes for people: `512Mi`, `4Gi`, or with one decimal where it is not whole."""
    for unit, size in (("Gi", GIB), ("Mi", MIB), ("Ki", KIB)):
        if amount >= size:
            return f"{amount // size}{unit}" if amount % size == 0 else f"{amount / size:.1f}{unit}"
    return f"{amount}B"


def parse_cpu(value: str | float) -> MilliCores:
    """Millicores of an amount such as 2, 0.5, `2` or `500m`."""
    text = str(value)
    match = _CPU.fullmatch(text)
    amount = (Decimal(match[1]) if match[2] else Decimal(match[1]) * 1000) if match else Decimal(0)
    if not (0 < amount <= _MAX_CPU_MILLIS and amount == int(amount)):
        raise ValueError(f"{text[:40]!r} is no CPU amount; write cores as in 2 or 0.5, or millicores as in 500m")
    return MilliCores(int(amount))
