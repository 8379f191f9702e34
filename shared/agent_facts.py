"""What an agent says of the parts of its machine that may be broken: GPUs, network ports, complaints of the kernel.

Not every part tells everything. What is None is not known, and nothing follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_NUMBERS: Final = (
    *("uncorrected_errors", "remapped_rows", "bus_width", "bus_width_max", "bus_generation", "bus_generation_max"),
    *("clock_mhz", "clock_max_mhz", "links", "links_up", "link_errors", "memory_used_bytes"),
)
_FLAGS: Final = ("remap_pending", "remap_failed", "divided")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU that the driver knows.

    `remapped_rows` are rows of memory that were replaced after uncorrectable errors; `bus_width` and `bus_generation`
    are those of PCIe, `links` those of NVLink, `slowed_by` what lowers the clocks though it should not, `fabric`
    whether the NVSwitches have taken it in, `processes` who uses it: names by process id; `memory_used_bytes` are
    without what the driver keeps for itself, `divided` says that parts of it are given (MIG). Where the kubelet gives
    GPUs, `given_to` says why it is not free, and `used_by` who uses it.
    """

    id: str
    name: str
    uncorrected_errors: int | None = None
    bus: str = ""
    remapped_rows: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    bus_width: int | None = None
    bus_width_max: int | None = None
    bus_generation: int | None = None
    bus_generation_max: int | None = None
    clock_mhz: int | None = None
    clock_max_mhz: int | None = None
    slowed_by: tuple[str, ...] = ()
    links: int = 0
    links_up: int = 0
    link_errors: int = 0
    fabric: str | None = None
    processes: Mapping[str, str] = field(default_factory=dict)
    memory_used_bytes: int | None = None
    divided: bool | None = None
    given_to: str = ""
    used_by: str = ""

    @property
    def users(self) -> str:
        """The processes that use it, in words."""
        return ", ".join(f"{pid} ({name})" if name else pid for pid, name in sorted(self.processes.items()))


@dataclass(frozen=True, slots=True)
class Port:
    """A port of an InfiniBand or RoCE adapter; `errors` have grown by `grown` since the agent looked `grown_s` ago."""

    name: str
    layer: str = ""
    state: str = ""
    physical: str = ""
    gbit_s: float = 0.0
    errors: Mapping[str, int] = field(default_factory=dict)
    grown: Mapping[str, int] = field(default_factory=dict)
    grown_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Complaint:
    """A line of the kernel's log in which a driver complains: `source` is `xid` (a GPU) or `sxid` (an NVSwitch)."""

    source: str
    bus: str
    number: int
    age_s: float
    text: str = ""


def gpu_of(given: Mapping[str, Any]) -> Gpu:
    """The GPU of its JSON; raises TypeError, ValueError or KeyError."""
    known: dict[str, Any] = {name: int(given[name]) for name in _NUMBERS if given.get(name) is not None}
    known |= {name: bool(given[name]) for name in _FLAGS if given.get(name) is not None}
    return Gpu(
        id=str(given["id"]),
        name=str(given["name"]),
        bus=str(given.get("bus", "")),
        slowed_by=tuple(str(each) for each in given.get("slowed_by", ())),
        fabric=str(given["fabric"]) if given.get("fabric") is not None else None,
        processes={str(pid): str(name) for pid, name in given.get("processes", {}).items()},
        given_to=str(given.get("given_to", "")),
        used_by=str(given.get("used_by", "")),
        **known,
    )


def port_of(given: Mapping[str, Any]) -> Port:
    """The port of its JSON; raises TypeError, ValueError or KeyError."""
    return Port(
        name=str(given["name"]),
        layer=str(given.get("layer", "")),
        state=str(given.get("state", "")),
        physical=str(given.get("physical", "")),
        gbit_s=float(given.get("gbit_s", 0.0)),
        errors={str(name): int(value) for name, value in given.get("errors", {}).items()},
        grown={str(name): int(value) for name, value in given.get("grown", {}).items()},
        grown_s=float(given.get("grown_s", 0.0)),
    )


def complaint_of(given: Mapping[str, Any]) -> Complaint:
    """The complaint of its JSON; raises TypeError, ValueError or KeyError."""
    return Complaint(
        source=str(given["source"]),
        bus=str(given["bus"]),
        number=int(given["number"]),
        age_s=float(given["age_s"]),
        text=str(given.get("text", "")),
    )
