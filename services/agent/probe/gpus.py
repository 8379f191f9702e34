"""What the driver says of each GPU, by NVML: memory errors, bus, links, clocks, who uses it.

Not every GPU tells everything: what it does not is left out, and nothing follows from that. A driver may hang with its
device; the look is made in a child process with a limit, and no answer says that the GPUs cannot be looked at.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import site
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

LIMIT_S = 8.0
DRIVER = Path("/dev/nvidiactl")
_ANSWER_BYTES = 1 << 20
_LINKS_MAX = 18
_LINK_ERRORS = 4
_COMPLETED = 3
# Bits of NVML's reasons for lower clocks that say that something is wrong with power or cooling.
_SLOWDOWNS = {0x08: "hardware slowdown", 0x20: "thermal limit", 0x40: "hardware thermal slowdown", 0x80: "power brake"}
_UNCORRECTED, _VOLATILE = 1, 0
_SM_CLOCK = 1


class Look:
    """A look at the GPUs of this machine, begun in a child process; `told` waits for what it finds."""

    def __init__(self, find: Callable[[], dict[str, Any]]) -> None:
        self._ends = time.monotonic() + LIMIT_S
        self._reading, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.write(writing, json.dumps(find()).encode())
            finally:
                os._exit(0)
        os.close(writing)

    def told(self) -> dict[str, Any]:
        """GPUs and versions, or why they could not be looked at."""
        data = b""
        while select.select([self._reading], [], [], max(self._ends - time.monotonic(), 0))[0]:
            came = os.read(self._reading, _ANSWER_BYTES)
            if not came:
                break
            data += came
        os.kill(self._pid, signal.SIGKILL)
        try:
            found: dict[str, Any] = json.loads(data)
        except ValueError:
            return _silent(f"the driver did not answer within {LIMIT_S:g} s")
        return found


def of_this_machine() -> dict[str, Any]:
    """What NVML says; nothing where there is no driver."""
    if not DRIVER.exists():
        return {"gpus": [], "versions": {}}
    try:
        site.main()  # the probe is started without the packages of the environment, which take long to find
        return told_by(importlib.import_module("pynvml"))
    except ImportError as error:
        return _silent(f"the agent's Python cannot ask the driver: {error}")


def told_by(nvml: Any) -> dict[str, Any]:
    """What NVML says; `nvml` is the module `pynvml`, or what answers like it."""
    try:
        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
        versions = {"driver": _ask(nvml, nvml.nvmlSystemGetDriverVersion), "cuda": _cuda(nvml)}
        gpus = [_gpu(nvml, nvml.nvmlDeviceGetHandleByIndex(index)) for index in range(count)]
    except nvml.NVMLError as error:
        return _silent(f"the GPUs cannot be looked at: {error}")
    return {"gpus": gpus, "versions": {name: str(version) for name, version in versions.items() if version}}


def _silent(why: str) -> dict[str, Any]:
    return {"gpus": [], "versions": {}, "gpus_unknown": why}


def _gpu(nvml: Any, handle: Any) -> dict[str, Any]:
    def ask(name: str, *more: Any) -> Any:
        function = getattr(nvml, name, None)
        return _ask(nvml, lambda: function(handle, *more)) if function else None

    rows, pci = ask("nvmlDeviceGetRemappedRows"), ask("nvmlDeviceGetPciInfo")
    links = [state for link in range(_LINKS_MAX) if (state := ask("nvmlDeviceGetNvLinkState", link)) is not None]
    processes = ask("nvmlDeviceGetComputeRunningProcesses") or ()
    # The second version leaves out what the driver keeps for itself.
    second = getattr(nvml, "nvmlMemory_v2", None)
    memory, divided = ask("nvmlDeviceGetMemoryInfo", second) if second else None, ask("nvmlDeviceGetMigMode")
    found = {
        "id": ask("nvmlDeviceGetUUID"),
        "name": ask("nvmlDeviceGetName"),
        "bus": str(pci.busId).lower() if pci else None,
        "uncorrected_errors": ask("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE),
        "remapped_rows": rows[1] if rows else None,
        "remap_pending": bool(rows[2]) if rows else None,
        "remap_failed": bool(rows[3]) if rows else None,
        "bus_width": ask("nvmlDeviceGetCurrPcieLinkWidth"),
        "bus_width_max": ask("nvmlDeviceGetMaxPcieLinkWidth"),
        "bus_generation": ask("nvmlDeviceGetCurrPcieLinkGeneration"),
        "bus_generation_max": ask("nvmlDeviceGetMaxPcieLinkGeneration"),
        "clock_mhz": ask("nvmlDeviceGetClockInfo", _SM_CLOCK),
        "clock_max_mhz": ask("nvmlDeviceGetMaxClockInfo", _SM_CLOCK),
        "slowed_by": slowdowns(
            ask("nvmlDeviceGetCurrentClocksEventReasons") or ask("nvmlDeviceGetCurrentClocksThrottleReasons") or 0
        ),
        "links": len(links),
        "links_up": sum(map(bool, links)),
        "link_errors": _link_errors(ask, range(len(links))),
        "fabric": _fabric(nvml, handle),
        "memory_used_bytes": memory.used if memory else None,
        "divided": bool(divided[0]) if divided else None,
        "processes": {str(each.pid): _name_of(each.pid) for each in processes},
    }
    return {name: value for name, value in found.items() if value is not None}


def slowdowns(reasons: int) -> list[str]:
    """What lowers the clocks though it should not."""
    return [name for bit, name in _SLOWDOWNS.items() if reasons & bit]


def _link_errors(ask: Callable[..., Any], links: Iterable[int]) -> int:
    counted = (ask("nvmlDeviceGetNvLinkErrorCounter", link, kind) for link in links for kind in range(_LINK_ERRORS))
    return sum(count or 0 for count in counted)


def _fabric(nvml: Any, handle: Any) -> str | None:
    """Whether the fabric of NVSwitches has taken the GPU in; None where there is none."""
    structure = getattr(nvml, "c_nvmlGpuFabricInfo_t", None)
    if structure is None:
        return None
    info = structure()
    if _ask(nvml, lambda: nvml.nvmlDeviceGetGpuFabricInfo(handle, info)) is None or not info.state:
        return None
    return "completed" if info.state == _COMPLETED and not info.status else f"state {info.state}, status {info.status}"


def _cuda(nvml: Any) -> str | None:
    version = _ask(nvml, nvml.nvmlSystemGetCudaDriverVersion)
    return f"{version // 1000}.{version % 1000 // 10}" if version else None


def _ask(nvml: Any, question: Callable[[], Any]) -> Any:
    """What the driver says; None where this GPU does not tell it."""
    try:
        return question()
    except nvml.NVMLError:
        return None


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
