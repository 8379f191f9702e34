"""Measurements of sound nodes for tests of the diagnosis."""

from __future__ import annotations

from typing import Any

from services.diagnoser.domain.verdict import GOLDEN_CHECKSUM
from shared.agent_wire import Measurement
from shared.units import GIB


def measurement(**changes: Any) -> Measurement:
    fields: dict[str, Any] = {
        "cpus": (0, 1),
        "memory_bytes": 8 * GIB,
        "memory_free_bytes": 4 * GIB,
        "disk_free_bytes": 10 * GIB,
        "shm_free_bytes": GIB,
        "open_files": 4096,
        "load": 0.5,
        "unix_ms": 1_000_000,
        "checksums": {GOLDEN_CHECKSUM: (0, 1)},
        "gemm_ms": 200.0,
        **changes,
    }
    return Measurement(**fields)
