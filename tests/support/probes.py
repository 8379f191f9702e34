"""Measurements and test results of sound nodes for tests of the diagnosis."""

from __future__ import annotations

from typing import Any

from services.diagnoser.domain.golden import GOLDEN
from services.diagnoser.domain.verdict import GOLDEN_CHECKSUM
from shared.agent_wire import Measurement
from shared.diagnosis_wire import DeviceResult, Peer, TestAnswer, TestRequest
from shared.units import GIB

RATES = {"bf16Tflops": 0.4, "fp32Tflops": 0.2}
CHECKSUMS = {name: GOLDEN[name] for name in ("bf16 exact 512", "fp32 exact 512")} | {"fp32 like": "5eed"}


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
    devices = request.devices or ("cpu-0", "cpu-1")
    alone = {
        "compute": DeviceResult(RATES, CHECKSUMS),
        "memory": DeviceResult({"memoryGbS": 10.0}),
        "hostDevice": DeviceResult({"hostToDeviceGbS": 25.0, "deviceToHostGbS": 25.0}),
    }
    if request.test in alone:
        return TestAnswer(devices=dict.fromkeys(devices, alone[request.test]))
    if request.test == "begin":
        return TestAnswer(about={"transport": "nccl" if request.devices else "gloo", "torch": "2.9"})
    if request.test == "serve":
        return TestAnswer(served=Peer(request.node, "127.0.0.1", 1, "word", 2))
    if request.test in {"exchange", "link"}:
        return TestAnswer(figures={"bandwidthMbS": 1000.0, "latencyUs": 50.0})
    return TestAnswer(figures={"allReduceMbS": 500.0, "allToAllMbS": 400.0})
