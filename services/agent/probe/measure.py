"""Everything that the probe finds, as one JSON object."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

from . import cpus, gpus, host, kernel_log, mounts, network


def measure(directory: str, names: Sequence[str] = ()) -> dict[str, Any]:
    """What `shared.agent_wire.Measurement` describes."""
    look, allowed = gpus.Look(gpus.of_this_machine), sorted(os.sched_getaffinity(0))
    results = cpus.compute(allowed)
    total, available = host.memory()
    checksums: dict[str, list[int]] = {}
    for cpu, result, _ms, _cpu_ms in sorted(results):
        checksums.setdefault(result, []).append(cpu)
    of_gpus, limits = look.told(), host.limits()
    own_name = socket.gethostname()
    unresolved = host.unresolved([own_name, *names])
    models = sorted({str(gpu["name"]) for gpu in of_gpus["gpus"] if "name" in gpu})
    return {
        "cpus": allowed,
        "memory_bytes": total,
        "memory_free_bytes": available,
        "disk_free_bytes": host.free_bytes(directory),
        "shm_free_bytes": host.free_bytes("/dev/shm"),  # noqa: S108  # it is only asked for its room
        "open_files": limits.pop("open_files"),
        "limits": limits,
        "load": os.getloadavg()[0],
        "unix_ms": time.time_ns() // 1_000_000,
        "checksums": checksums,
        "gemm_ms": max((ms for _cpu, _result, ms, _cpu_ms in results), default=0.0),
        "kind": ", ".join([host.kind(), *models]),
        "device_ms": {f"cpu-{cpu}": round(cpu_ms, 3) for cpu, _result, _ms, cpu_ms in results},
        "read_only": host.looked_at({directory: True})["read_only"],
        "resolves": own_name not in unresolved,
        "unresolved": [name for name in unresolved if name != own_name],
        "ports": network.ports(),
        "complaints": kernel_log.read(),
        **of_gpus,
    }


def main(arguments: Sequence[str]) -> None:
    """Print what is asked for."""
    signal.alarm(cpus.LIMIT_S * 2)  # whoever started us may be gone
    match arguments:
        case ["places", places]:
            told: dict[str, Any] = host.looked_at(json.loads(places))
        case ["mounts", root, places]:
            told = mounts.looked_at(root, json.loads(places))
        case _:
            told = measure(arguments[0], arguments[1:])
    json.dump(told, sys.stdout)
