"""Measurements and test results of sound nodes for tests of the diagnosis."""

from __future__ import annotations

from typing import Any

from services.diagnoser.domain.verdict import GOLDEN_CHECKSUM
from shared.agent_wire import Measurement
from shared.diagnosis_wire import Peer, TestAnswer, TestRequest
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


def answer_of(request: TestRequest) -> TestAnswer:
    """What a sound worker answers."""
    match request.test:
        case "memory":
            return TestAnswer(figures={"memoryGbS": 10.0})
        case "serve":
            return TestAnswer(served=Peer(request.node, "127.0.0.1", 1, "word"))
        case "exchange":
            figures = {"bandwidthMbS": 1000.0, "latencyUs": 50.0}
            return TestAnswer(peers={peer.node: figures for peer in request.peers})
        case _:
            return TestAnswer(figures={"allReduceMbS": 500.0})
