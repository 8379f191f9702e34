"""The stages of a diagnosis on this machine's devices, beside NVIDIA's own tools: `python3 benchmarks/device.py`.

Nothing but an interpreter with PyTorch is needed (TRAINMASTER_PROBE_PYTHON, or the one that runs this), so that it can
be copied to a bare GPU machine. It starts the worker as the agent does, with the machine's GPUs as the devices of one
node, or two of its CPUs where there is none, and makes each stage as the diagnoser has it made. It ends within six
minutes.

Beside each figure stands what NVIDIA's tools say where they are installed: nvbandwidth and all_reduce_perf of the NCCL
tests; and what the data sheet of the GPU promises.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, Final, Self

ROOT: Final = Path(__file__).resolve().parents[1]
WORKER: Final = ROOT / "services" / "agent" / "worker"
# Dense bf16 and fp32 in TFLOP/s, memory in GB/s, of NVIDIA's data sheets.
SHEETS: Final[Mapping[str, tuple[float, float, float]]] = {
    "H200": (989.0, 67.0, 4800.0),
    "H100": (989.0, 67.0, 3350.0),
    "A100": (312.0, 19.5, 2039.0),
}
TOOL_S: Final = 40.0
SIZES: Final = {True: [1 << 20, 64 << 20, 1 << 30], False: [1 << 18, 4 << 20]}
WORK_S: Final = {True: {"compute": 60.0, "memory": 5.0, "hostDevice": 4.0, "local": 6.0, "link": 0.5},
                 False: {"compute": 1.0, "memory": 0.5, "hostDevice": 0.5, "local": 0.5, "link": 0.5}}  # fmt: skip


@dataclass
class Worker:
    """The worker process, asked one question after the other."""

    python: str
    devices: Sequence[str]
    _number: int = 0
    _process: Any = field(default=None)

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [self.python, "-I", str(WORKER), "127.0.0.1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.stdin.close()
        self._process.wait()

    def ask(self, test: str, work_s: float = 1.0, **more: Any) -> tuple[dict[str, Any], float]:
        """The answer, and how many seconds it took."""
        self._number += 1
        asked = {
            "id": self._number,
            "node": "here",
            "test": test,
            "devices": list(self.devices),
            "work_s": work_s,
            "limit_s": work_s + 60,
            "enough": {},
            "sizes": [],
            "ranks": [],
            "peers": [],
            "ranks_each": 1,
            "transport": "nccl" if self.devices else "gloo",
            "round": f"r-{self._number}",
            **more,
        }
        began = time.monotonic()
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        while True:
            answer = json.loads(self._process.stdout.readline())
            if answer.get("id") == self._number:
                return answer, time.monotonic() - began


def main() -> None:
    """Make the stages, and print what they gave."""
    began = time.monotonic()
    gpus = list_gpus()
    named = ", ".join(f"{name} ({model})" for name, model in gpus.items())
    print(f"devices: {named or 'no GPU; CPUs by the same code'}")
    python = os.environ.get("TRAINMASTER_PROBE_PYTHON", sys.executable)
    sheet = next((values for name, values in SHEETS.items() for model in gpus.values() if name in model), None)
    with Worker(python, list(gpus)) as worker:
        for name, value, unit, beside in rows(worker, gpu=bool(gpus), sheet=sheet):
            print(f"{name:58} {value:>12} {unit:9} {beside}".rstrip(), flush=True)
    print(f"facts: {facts(python)}")
    for tool, told in own_tools():
        print(f"{tool}: {told}")
    print(f"all of it took {time.monotonic() - began:.1f} s")


def list_gpus() -> dict[str, str]:
    """The driver's ids and models."""
    tool = shutil.which("nvidia-smi")
    listed = _told(tool, "-L") if tool else ""
    return {match[2]: match[1] for match in re.finditer(r"GPU \d+: (.+?) \(UUID: (GPU-[^)]+)\)", listed)}


def facts(python: str) -> str:
    """What the probe says of GPUs, ports and the kernel's log; the versions are those of the driver."""
    told = _told(python, "-I", str(WORKER.with_name("probe")), "/tmp")
    try:
        found = json.loads(told)
    except ValueError:
        return told
    return json.dumps({name: found.get(name) for name in ("gpus", "gpus_unknown", "versions", "ports", "complaints")})


Row = tuple[str, str, str, str]


def rows(worker: Worker, *, gpu: bool, sheet: tuple[float, float, float] | None) -> Iterator[Row]:
    """One line for each figure."""
    work = WORK_S[gpu]
    begun, took_s = worker.ask("begin")
    yield "opening the devices", f"{took_s:.2f}", "s", json.dumps(begun.get("about", {})) + begun.get("problem", "")
    peaks = dict(zip(("bf16Tflops", "fp32Tflops", "memoryGbS"), sheet or (), strict=False))
    for test in ("compute", "memory", "hostDevice"):
        if test == "hostDevice" and not gpu:
            continue
        answer, took_s = worker.ask(test, work[test])
        yield from _of_devices(test, answer, peaks)
        yield f"{test}, all devices", f"{took_s:.2f}", "s", answer.get("problem", "")
    names = list(answer.get("devices", {}))
    if len(names) > 1:
        yield from _together(worker, names, gpu=gpu)


def _of_devices(test: str, answer: Mapping[str, Any], peaks: Mapping[str, float]) -> Iterator[Row]:
    golden = _golden()
    for device, result in answer.get("devices", {}).items():
        for figure, value in result.get("figures", {}).items():
            peak = peaks.get(figure)
            beside = f"{100 * value / peak:.0f} % of the data sheet's {peak:g}" if peak else ""
            yield f"{device} {figure}", f"{value:.4g}", "", beside
        for name, given in result.get("checksums", {}).items():
            right = golden.get(name)
            yield f"{device} {name}", given, "", "" if right is None else "golden" if given == right else f"NOT {right}"
        if result.get("problem"):
            yield f"{device} {test}", "PROBLEM", "", result["problem"]


def _golden() -> Mapping[str, str]:
    """The right checksums; the module needs nothing but an interpreter."""
    sys.path.append(str(ROOT))
    golden: Mapping[str, str] = importlib.import_module("services.diagnoser.domain.golden").GOLDEN
    return golden


def _together(worker: Worker, names: Sequence[str], *, gpu: bool) -> Iterator[Row]:
    work = WORK_S[gpu]
    served = worker.ask("serve")[0]["served"]
    answer, took_s = worker.ask("local", work["local"], peers=[served], sizes=SIZES[gpu])
    for figure, value in answer.get("figures", {}).items():
        yield f"{len(names)} devices {figure}", f"{value:.4g}", "MB/s", answer.get("problem", "")
    yield "all devices together", f"{took_s:.2f}", "s", answer.get("problem", "")
    for one, other in list(combinations(range(len(names)), 2))[:28]:
        answer, took_s = worker.ask("link", work["link"], peers=[served], ranks=[one, other])
        told = answer.get("figures", {})
        bandwidth, latency = told.get("bandwidthMbS", 0.0), told.get("latencyUs", 0.0)
        beside = answer.get("problem") or f"{latency:.1f} us, in {took_s:.2f} s"
        yield f"{names[one]} to {names[other]}", f"{bandwidth:.5g}", "MB/s", beside


def own_tools() -> Iterator[tuple[str, str]]:
    """What NVIDIA's tools say, those that are installed."""
    tools = {
        "nvbandwidth": ("-t", "host_to_device_memcpy_ce", "device_to_host_memcpy_ce", "device_local_copy"),
        "all_reduce_perf": ("-b", "64M", "-e", "1G", "-f", "16", "-g", str(max(len(list_gpus()), 1))),
        "dcgmi": ("diag", "-r", "1"),
    }
    for name, arguments in tools.items():
        tool = shutil.which(name)
        yield name, _told(tool, *arguments) if tool else "not installed"


def _told(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return done.stdout + done.stderr


if __name__ == "__main__":
    main()
