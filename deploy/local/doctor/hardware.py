"""What replicas get of the machine: GPUs, cores and memory, memory limits, shared memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from deploy.local.doctor.finding import Finding, ok, warn
from services.scheduler.engines.local.inventory import Gpus, look_at_machine, read_gpus
from services.scheduler.engines.local.memory_groups import CGROUPS, find_memory_groups
from shared.units import GIB, format_bytes

PCI_DEVICES: Final = Path("/sys/bus/pci/devices")
NVIDIA_VENDOR: Final = "0x10de"
DISPLAY_CLASS: Final = "0x03"
MEMORY_MIN_BYTES: Final = GIB
SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108  # the very thing that is looked at
SHARED_MEMORY_MIN_BYTES: Final = GIB


def gpus(found: Gpus | None = None, pci: Path = PCI_DEVICES) -> Finding:
    """Which GPUs replicas can get, and whether there are some that the driver does not tell of."""
    found = read_gpus() if found is None else found
    if found.devices:
        models = {device.model: 0 for device in found.devices}
        for device in found.devices:
            models[device.model] += 1
        told = ", ".join(f"{count} x {model}" for model, count in models.items())
        return ok("gpus", f"{told}, driver {found.driver}")
    unseen = _nvidia_cards(pci)
    if unseen:
        message = f"{unseen} NVIDIA cards are there, and the driver's library does not tell of them"
        return warn("gpus", message, "install the NVIDIA driver (apt-get install nvidia-driver), then check nvidia-smi")
    return ok("gpus", "none; jobs get cores and memory")


def _nvidia_cards(pci: Path) -> int:
    cards = 0
    for device in pci.glob("*"):
        vendor, kind = device / "vendor", device / "class"
        if vendor.exists() and vendor.read_text().strip() == NVIDIA_VENDOR:
            cards += kind.exists() and kind.read_text().startswith(DISPLAY_CLASS)
    return cards


def memory(memory_bytes: int | None = None) -> Finding:
    """Whether there is enough for the platform and a job beside it."""
    machine = look_at_machine()
    size_bytes = machine.memory_bytes if memory_bytes is None else memory_bytes
    told = f"{machine.cpu_m / 1000:g} cores, {format_bytes(size_bytes)} of memory"
    if size_bytes < MEMORY_MIN_BYTES:
        return warn("machine", f"{told}: the platform takes 0.4Gi of it", "use a machine with 2Gi or more")
    return ok("machine", told)


def memory_limits(root: Path = CGROUPS) -> Finding:
    """Whether the memory of replicas can be limited."""
    if find_memory_groups(root) is not None:
        return ok("memory-limits", "the memory of each replica is limited, and a kill for it is known for certain")
    consequence = "the memory of replicas is not limited, and a kill for want of it is only suspected"
    if not any((root / file).exists() for file in ("cgroup.controllers", "memory")):
        mend = "boot with systemd.unified_cgroup_hierarchy=1, which gives cgroups version 2"
        return warn("memory-limits", f"there are no cgroups for memory: {consequence}", mend)
    mend = "run the platform as root, outside of a container or in one with writable cgroups: sudo trainmaster up"
    return warn("memory-limits", f"groups cannot be made in {root}: {consequence}", mend)


def shared_memory(path: Path = SHARED_MEMORY, size_bytes: int | None = None) -> Finding:
    """Whether data loaders with several workers, and NCCL, have room."""
    if size_bytes is None:
        state = os.statvfs(path)
        size_bytes = state.f_frsize * state.f_blocks
    told = f"{format_bytes(size_bytes)} at {path}"
    if size_bytes < SHARED_MEMORY_MIN_BYTES:
        mend = f"mount -o remount,size=8G {path} (of a container: --shm-size=8g)"
        return warn("shared-memory", f"{told}: data loaders with workers may die of a bus error", mend)
    return ok("shared-memory", told)
