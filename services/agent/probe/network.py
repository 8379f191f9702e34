"""Ports of InfiniBand and RoCE adapters as the kernel shows them below `/sys/class/infiniband`.

A port has a logical state, a physical one, a speed, and counters of errors that only ever grow, so that what they say
is how fast they do: whoever has looked before can tell. RoCE counts its own kind of errors in `hw_counters`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path("/sys/class/infiniband")
ERRORS = (
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_discards",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)
HARDWARE_ERRORS = (
    "packet_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "out_of_sequence",
    "rx_icrc_encapsulated",
    "roce_adp_retrans_to",
)


def ports(root: Path = ROOT) -> list[dict[str, Any]]:
    """All ports of all adapters; none on a machine without."""
    return [port for adapter in _entries(root) for port in _ports_of(adapter)]


def _ports_of(adapter: Path) -> Iterator[dict[str, Any]]:
    for port in _entries(adapter / "ports"):
        counted = {name: _number(port / "counters" / name) for name in ERRORS}
        counted |= {name: _number(port / "hw_counters" / name) for name in HARDWARE_ERRORS}
        yield {
            "name": f"{adapter.name}/{port.name}",
            "layer": _text(port / "link_layer"),
            "state": _text(port / "state").partition(":")[2].strip(),
            "physical": _text(port / "phys_state").partition(":")[2].strip(),
            "gbit_s": _speed(_text(port / "rate")),
            "errors": {name: value for name, value in counted.items() if value is not None},
        }


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _number(file: Path) -> int | None:
    text = _text(file)
    return int(text) if text.isdecimal() else None


def _speed(rate: str) -> float:
    """Gigabits a second of `400 Gb/sec (4X NDR)`."""
    first = rate.partition(" ")[0]
    try:
        return float(first)
    except ValueError:
        return 0.0
