"""What the GPUs of this machine do now, by NVML. A machine without a driver has none, and that is no problem."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import pynvml

from shared.agent_evidence import GpuActivity

Told = TypeVar("Told")
_MILLI: Final = 1000


def activity() -> tuple[tuple[GpuActivity, ...], tuple[str, ...]]:
    """Every GPU that the driver lists, and what could not be looked at."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound:
        return (), ()
    except pynvml.NVMLError as error:
        return (), (f"the GPUs cannot be looked at: {error}",)
    try:
        count = pynvml.nvmlDeviceGetCount()
        return tuple(_of(pynvml.nvmlDeviceGetHandleByIndex(index)) for index in range(count)), ()
    except pynvml.NVMLError as error:
        return (), (f"the GPUs cannot be looked at: {error}",)
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _of(handle: Any) -> GpuActivity:
    rates = _told(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle))
    memory = _told(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle))
    milliwatts = _told(lambda: pynvml.nvmlDeviceGetPowerUsage(handle))
    running = _told(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(handle)) or []
    return GpuActivity(
        id=str(pynvml.nvmlDeviceGetUUID(handle)),
        name=str(pynvml.nvmlDeviceGetName(handle)),
        busy_percent=rates.gpu if rates else None,
        memory_busy_percent=rates.memory if rates else None,
        memory_used_bytes=memory.used if memory else None,
        power_watts=milliwatts / _MILLI if milliwatts is not None else None,
        pids=tuple(each.pid for each in running),
    )


def _told(ask: Callable[[], Told]) -> Told | None:
    """What the driver says; None where this GPU does not tell it."""
    try:
        return ask()
    except pynvml.NVMLError:
        return None
