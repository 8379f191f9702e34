"""How amounts and exits are written: bytes, millicores, money, how a process ended."""

from __future__ import annotations

import signal
from typing import Final

from trainmaster.documents import ReplicaExit

_UNITS: Final = (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024))


def size(size_bytes: int) -> str:
    """`512 MiB`, `1.5 GiB`, `17 B`."""
    for unit, unit_bytes in _UNITS:
        if size_bytes >= unit_bytes:
            return f"{size_bytes / unit_bytes:.1f}".removesuffix(".0") + f" {unit}"
    return f"{size_bytes} B"


def resource_amount(resource: str, amount: int) -> str:
    """An amount of a resource as the scheduler counts it: millicores of CPU, bytes of memory, pieces of the rest."""
    if resource == "cpu":
        return "1 core" if amount == 1000 else f"{amount / 1000:g} cores"
    return size(amount) if resource == "memory" else str(amount)


def money(micros: int) -> str:
    """Units of the platform's currency, with two decimals or as many as there are: `1.50`, `-0.000021`."""
    whole, rest = divmod(abs(micros), 1_000_000)
    decimals = f"{rest:06}".rstrip("0").ljust(2, "0")
    return f"{'-' if micros < 0 else ''}{whole}.{decimals}"


def exit_text(ended: ReplicaExit) -> str:
    """`0`, `137`, `SIGKILL (out of memory: suspected)`, `lost: the node is gone`."""
    if ended.signal is not None:
        outcome = _signal_name(ended.signal)
    elif ended.code is not None:
        outcome = str(ended.code)
    else:
        outcome = ": ".join(filter(None, (ended.cause, ended.message)))
    return outcome if ended.out_of_memory == "none" else f"{outcome} (out of memory: {ended.out_of_memory})"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
