"""What the driver says of GPUs, through an object that answers like `pynvml`."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace
from typing import Any

import pytest

from services.agent.probe import gpus
from services.agent.probe.gpus import Look, slowdowns, told_by
from shared.agent_facts import gpu_of


class FakeError(Exception):
    """As NVMLError."""


class FakeNvml:
    """Two GPUs that answer what `answers` has; what is missing there is not supported."""

    NVMLError = FakeError

    class c_nvmlGpuFabricInfo_t:  # noqa: N801  # as in pynvml
        state, status = 0, 0

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlDeviceGetCount": 2,
            "nvmlSystemGetDriverVersion": "570.86.15",
            "nvmlSystemGetCudaDriverVersion": 12080,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetUUID": lambda index: f"GPU-{index}",
            "nvmlDeviceGetName": "NVIDIA H200",
            "nvmlDeviceGetPciInfo": lambda index: SimpleNamespace(busId=f"00000000:{0xCB + index:X}:00.0"),
            "nvmlDeviceGetNvLinkState": lambda _gpu, link: link < 17 if link < 18 else None,
            "nvmlDeviceGetNvLinkErrorCounter": lambda _gpu, link, kind: int(link == kind == 0) * 7,
            **answers,
        }

    def __getattr__(self, name: str) -> Any:
        def answer(*arguments: Any) -> Any:
            if name not in self.answers:
                raise FakeError("Not Supported")
            given = self.answers[name]
            if isinstance(given, Exception):
                raise given
            return given(*arguments) if callable(given) else given

        return answer


def test_every_gpu_says_what_it_can_and_the_rest_is_unknown() -> None:
    told = told_by(FakeNvml())
    first, second = map(gpu_of, told["gpus"])
    assert told["versions"] == {"driver": "570.86.15", "cuda": "12.8"}
    assert (first.id, first.name, first.bus, second.bus) == (
        "GPU-0", "NVIDIA H200", "00000000:cb:00.0", "00000000:cc:00.0",
    )  # fmt: skip
    assert (first.links, first.links_up, first.link_errors) == (18, 17, 7)
    assert (first.uncorrected_errors, first.remap_failed, first.fabric, first.slowed_by) == (None, None, None, ())


def test_memory_bus_clocks_and_users_are_told() -> None:
    nvml = FakeNvml(
        nvmlDeviceGetTotalEccErrors=3,
        nvmlDeviceGetRemappedRows=(5, 2, 1, 0),
        nvmlDeviceGetCurrPcieLinkWidth=8,
        nvmlDeviceGetMaxPcieLinkWidth=16,
        nvmlDeviceGetClockInfo=345,
        nvmlDeviceGetCurrentClocksEventReasons=0x40 | 0x04,
        nvmlDeviceGetComputeRunningProcesses=[SimpleNamespace(pid=os.getpid())],
        nvmlDeviceGetMemoryInfo=SimpleNamespace(used=5 << 30),
        nvmlDeviceGetMigMode=[1, 1],
    )
    gpu = gpu_of(told_by(nvml)["gpus"][0])
    assert (gpu.uncorrected_errors, gpu.remapped_rows, gpu.remap_pending, gpu.remap_failed) == (3, 2, True, False)
    assert (gpu.bus_width, gpu.bus_width_max, gpu.clock_mhz) == (8, 16, 345)
    assert gpu.slowed_by == ("hardware thermal slowdown",)
    assert gpu.processes.keys() == {str(os.getpid())}
    assert (gpu.memory_used_bytes, gpu.divided) == (5 << 30, True)


@pytest.mark.parametrize(("state", "status", "told"), [(3, 0, "completed"), (2, 0, "state 2, status 0"), (0, 0, None)])
def test_the_fabric_of_switches_has_taken_a_gpu_in_or_not(state: int, status: int, told: str | None) -> None:
    def fill(_gpu: int, info: Any) -> int:
        info.state, info.status = state, status
        return 1

    gpu = gpu_of(told_by(FakeNvml(nvmlDeviceGetGpuFabricInfo=fill))["gpus"][0])
    assert gpu.fabric == told


def test_a_driver_that_refuses_is_told_with_its_words() -> None:
    told = told_by(FakeNvml(nvmlInit=FakeError("Driver/library version mismatch")))
    assert told["gpus_unknown"] == "the GPUs cannot be looked at: Driver/library version mismatch"


def test_power_that_is_capped_is_nothing_wrong() -> None:
    assert slowdowns(0x1 | 0x2 | 0x4 | 0x10 | 0x100) == []
    assert slowdowns(0x8 | 0x20 | 0x80) == ["hardware slowdown", "thermal limit", "power brake"]


def test_a_driver_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "LIMIT_S", 0.05)
    told = Look(lambda: time.sleep(60) or {}).told()
    assert told["gpus_unknown"] == "the driver did not answer within 0.05 s"
    assert Look(lambda: told_by(FakeNvml(nvmlDeviceGetCount=0))).told()["gpus"] == []
