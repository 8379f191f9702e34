"""What the facts of GPUs, network ports and the kernel's log say of a node. Pure.

Some facts are of a broken device: twice seen they make its node red. Others are of the moment, such as a GPU that
somebody uses, or that is too hot. Of Xids those count that speak against the device and not against the program, for a
day; those that are older were looked into or did not come again. Counters of ports count by how fast they grow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from shared.agent_facts import Complaint, Gpu, Port
from shared.agent_wire import Measurement
from shared.events import FigureMeasured

# The classes of the watchdog's catalogue that blame the node: restart, reset, check, and NVLink.
HARD_XIDS: Final = frozenset(
    {46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, *range(144, 151), 155, 156, 158}
)
RECENT_S: Final = 24 * 3600
# So many errors may be between two looks, and so many more for each hour between them.
_ERRORS: Final = (10, 100)
_SOFT_ERRORS: Final = (1_000, 100_000)
_ANY_IS_TOO_MANY: Final = frozenset({"link_downed"})
# What RoCE counts under load without any fault, as long as it is not many.
_SOFT: Final = frozenset(
    {"packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err", "out_of_sequence", "roce_adp_retrans_to"}
) | {"port_xmit_discards"}
_LOCKED_BYTES: Final = 64 << 20
_PROCESSES: Final = 256
_HOUR_S: Final = 3600


def broken_devices(measured: Measurement, devices: Collection[str]) -> Iterator[str]:
    """What is broken of the GPUs that the node is to give."""
    known = {gpu.id: gpu for gpu in measured.gpus}
    most_links = max((gpu.links_up for gpu in measured.gpus), default=0)
    yield from missing_devices(measured, devices)
    for device in sorted(set(devices) & known.keys()):
        gpu = known[device]
        yield from (f"{device} {why}" for why in (*_broken(gpu, most_links), *_complained(gpu, measured.complaints)))
    if devices:
        switches = [each for each in measured.complaints if each.source == "sxid" and _is_fatal_and_recent(each)]
        yield from (f"the NVSwitch {each.bus} gave SXid {each.number}: {each.text}" for each in switches)


def missing_devices(measured: Measurement, devices: Collection[str]) -> Iterator[str]:
    """GPUs that are not there."""
    missing, listed = sorted(set(devices) - {gpu.id for gpu in measured.gpus}), len(measured.gpus)
    why = f" ({measured.gpus_unknown})" if measured.gpus_unknown else ""
    if missing and measured.kubelet_gives:
        yield f"the driver lists {listed} GPUs where there are to be {listed + len(missing)}{why}"
    elif missing:
        yield f"the driver does not list {', '.join(missing)}{why}"


def of_the_moment(measured: Measurement, devices: Collection[str], *, idle: bool) -> Iterator[str]:
    """What is wrong now; who uses a GPU is asked where nobody else should be on the node."""
    for gpu in measured.gpus:
        if gpu.id in devices:
            if gpu.slowed_by:
                yield f"{gpu.id} is slowed by: {', '.join(gpu.slowed_by)}"
            if gpu.remap_pending:
                yield f"{gpu.id} must be reset, so that rows of its memory are replaced"
            if idle and gpu.processes:
                yield f"{gpu.id} is used by processes of somebody else: {gpu.users}"
    yield from (why for port in measured.ports for why in _port(port))
    yield from _limits(measured)


def _broken(gpu: Gpu, most_links: int) -> Iterator[str]:
    """A GPU none of whose NVLinks is up may have none that is connected, unless others of the node have."""
    if gpu.uncorrected_errors:
        yield f"has {gpu.uncorrected_errors} uncorrected memory errors"
    if gpu.remap_failed:
        yield "has rows of memory that could not be replaced"
    if gpu.bus_width and gpu.bus_width_max and gpu.bus_width < gpu.bus_width_max:
        yield f"has {gpu.bus_width} of {gpu.bus_width_max} lanes of PCIe"
    if 0 < gpu.links_up < gpu.links or gpu.links_up < most_links:
        yield f"has {gpu.links_up} of {gpu.links} NVLinks up"
    if gpu.fabric not in {None, "completed"}:
        yield f"is not part of the fabric of NVSwitches ({gpu.fabric}); look at the fabric manager"


def _complained(gpu: Gpu, complaints: Iterable[Complaint]) -> Iterator[str]:
    place = _place(gpu.bus)
    for each in complaints:
        is_of_it = each.source == "xid" and place and _place(each.bus) == place
        if is_of_it and each.number in HARD_XIDS and each.age_s <= RECENT_S:
            yield f"gave Xid {each.number} {each.age_s / _HOUR_S:.1f} h ago: {each.text}"


def _is_fatal_and_recent(complaint: Complaint) -> bool:
    text = complaint.text.lower()
    return complaint.age_s <= RECENT_S and text.startswith("fatal")


def _place(bus: str) -> str:
    """Domain, bus and device: the driver writes them with four, six or eight digits, with a function or without."""
    parts = bus.lower().partition(".")[0].split(":")
    return ":".join(part.lstrip("0") or "0" for part in parts) if len(parts) > 1 else ""


def _port(port: Port) -> Iterator[str]:
    if port.physical == "LinkUp" and port.state != "ACTIVE":
        yield f"port {port.name} is {port.state}, and not ACTIVE"
    for name, count in sorted(port.grown.items()):
        at_once, an_hour = _SOFT_ERRORS if name in _SOFT else _ERRORS
        allowed = 0 if name in _ANY_IS_TOO_MANY else at_once + an_hour * port.grown_s / _HOUR_S
        if count > allowed:
            yield f"port {port.name} counted {count} {name} in {port.grown_s:.0f} s"


def _limits(measured: Measurement) -> Iterator[str]:
    locked, processes = measured.limits.get("locked_bytes", -1), measured.limits.get("processes", -1)
    if measured.ports and 0 <= locked < _LOCKED_BYTES:
        yield f"a process may lock {locked} bytes of memory; InfiniBand needs {_LOCKED_BYTES} at least (ulimit -l)"
    if 0 <= processes < _PROCESSES:
        yield f"a user may have {processes} processes; at least {_PROCESSES} are needed (ulimit -u)"


def facts_of_hardware(measured: Measurement) -> Iterator[FigureMeasured]:
    """What is told of GPUs and ports in numbers, with what each should be; what is not known is left out."""
    for gpu in measured.gpus:
        told = (
            ("lanes of PCIe", gpu.bus_width, gpu.bus_width_max, False),
            ("NVLinks up", gpu.links_up if gpu.links else None, gpu.links, False),
            ("uncorrected memory errors", gpu.uncorrected_errors, 0, True),
            ("replaced rows of memory", gpu.remapped_rows, None, True),
            ("clock in MHz", gpu.clock_mhz, None, False),
            ("errors of NVLinks", gpu.link_errors if gpu.links else None, None, True),
        )
        for name, value, limit, less_is_better in told:
            if value is not None:
                yield FigureMeasured(
                    name=name, value=value, unit="", device=gpu.id, floor=limit, less_is_better=less_is_better
                )
    for port in measured.ports:
        grown = sum(port.grown.values())
        yield FigureMeasured(name=f"speed, {port.state}", value=port.gbit_s, unit="Gb/s", device=f"port {port.name}")
        yield FigureMeasured(name="new errors", value=grown, unit="", device=f"port {port.name}", less_is_better=True)


# --- against the others ----------------------------------------------------------------------------------------------


def odd_ones(measured: Mapping[str, Measurement], software: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """What a node has otherwise than most of its gang: versions of driver, CUDA and NCCL, and its ports."""
    told: dict[str, dict[str, str]] = {}
    for node, each in measured.items():
        nccl = {"NCCL": software.get(node, {}).get("nccl", "")}
        versions = {"driver": each.versions.get("driver", ""), "CUDA": each.versions.get("cuda", "")} | nccl
        ports = {f"port {port.name}": f"{port.physical} at {port.gbit_s:g} Gb/s" for port in each.ports}
        told[node] = {name: value for name, value in (versions | ports).items() if value}
    found: dict[str, list[str]] = {}
    for name in sorted({name for each in told.values() for name in each}):
        values = Counter(each[name] for each in told.values() if name in each)
        usual, count = values.most_common(1)[0]
        if 2 * count > sum(values.values()):
            for node, own in told.items():
                if own.get(name, usual) != usual:
                    found.setdefault(node, []).append(f"its {name} is {own[name]}, that of {count} others {usual}")
    return found
