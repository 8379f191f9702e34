"""What this machine has to offer, as one node or split into several that stay the same from start to start."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pynvml

from services.scheduler.domain.nodes import Device
from services.scheduler.domain.split import Split
from services.scheduler.ports.engine import NodeOffer
from shared.ids import hashed_id
from shared.node_labels import MACHINE_LABEL
from shared.units import MIB

MEMORY_LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


@dataclass(frozen=True, slots=True)
class Gpus:
    """The machine's GPUs and the driver that told of them."""

    devices: tuple[Device, ...] = ()
    driver: str = ""


@dataclass(frozen=True, slots=True)
class Hardware:
    """All of the machine."""

    machine: str
    name: str
    cpu_m: int
    memory_bytes: int
    gpus: Gpus
    facts: tuple[tuple[str, str], ...] = ()


def look_at_machine() -> Hardware:
    """What this process may use of the machine."""
    gpus = read_gpus()
    facts = {
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "gpuDriver": gpus.driver,
    }
    return Hardware(
        machine=_machine_id(),
        name=socket.gethostname(),
        cpu_m=len(os.sched_getaffinity(0)) * 1000,
        memory_bytes=_memory_bytes(),
        gpus=gpus,
        facts=tuple((name, value) for name, value in facts.items() if value),
    )


def divided(hardware: Hardware, split: Split, machine: str = "") -> tuple[NodeOffer, ...]:
    """The machine as so many nodes, which know its name; each GPU belongs to one of them."""
    if machine:
        hardware = replace(hardware, facts=(*hardware.facts, (MACHINE_LABEL, machine)))
    return tuple(_share(hardware, number, split) for number in range(split.nodes))


def _share(hardware: Hardware, number: int, split: Split) -> NodeOffer:
    devices, count = hardware.gpus.devices, split.nodes
    first, last = (len(devices) * edge // count for edge in (number, number + 1))
    return NodeOffer(
        id=hashed_id("n", hardware.machine, str(number)),
        name=hardware.name if count == 1 else f"{hardware.name}-{number}",
        cpu_m=hardware.cpu_m // count,
        memory_bytes=hardware.memory_bytes // count // MIB * MIB,
        devices=devices[first:last],
        facts={**dict(hardware.facts), **split.labels(number)},
    )


def read_gpus() -> Gpus:
    """GPUs by what NVML says; none where there is no driver."""
    try:
        with _nvml():
            handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
            devices = tuple(Device(pynvml.nvmlDeviceGetUUID(each), pynvml.nvmlDeviceGetName(each)) for each in handles)
            return Gpus(devices, pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return Gpus()


@contextmanager
def _nvml() -> Iterator[None]:
    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def _machine_id() -> str:
    with suppress(OSError):
        return Path("/etc/machine-id").read_text().strip() or socket.gethostname()
    return socket.gethostname()


def _memory_bytes() -> int:
    """Physical memory, or what a container leaves of it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *_memory_limits()])


def _memory_limits() -> Iterator[int]:
    for path in MEMORY_LIMITS:
        with suppress(OSError, ValueError):  # no such cgroup, or "max"
            yield int(path.read_text())
