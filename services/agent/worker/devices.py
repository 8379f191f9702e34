"""What a rank knows of its device: a GPU that the node was given, or a CPU of the machine.

A GPU is told by the driver's id. `CUDA_VISIBLE_DEVICES` is set to the ids of the node before the driver is loaded, so
that devices that others hold cannot even be seen. A CPU is one that the process is pinned to; its work is timed in
processor time, so that what else runs on the machine does not make it look slow, and a GPU's by the clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

MOST_CPU_RANKS = 2


@dataclass(frozen=True)
class Device:
    """One device as PyTorch calls it, and as reports do."""

    name: str
    at: torch.device

    @property
    def is_gpu(self) -> bool:
        """Whether it has a memory of its own and works beside the CPU."""
        return str(self.at.type) != "cpu"

    @property
    def backend(self) -> str:
        """What carries collectives between such devices."""
        return "nccl" if self.is_gpu else "gloo"

    def finish(self) -> None:
        """Wait for all that was begun on the device."""
        if self.is_gpu:
            torch.cuda.synchronize(self.at)

    def seconds(self, work: Callable[[], object]) -> float:
        """How long the work took the device."""
        clock = time.perf_counter if self.is_gpu else time.thread_time
        self.finish()
        began = clock()
        work()
        self.finish()
        return max(clock() - began, 1e-9)

    def free_bytes(self) -> int:
        """Room in the device's memory; of a CPU's, more than any test takes."""
        return int(torch.cuda.mem_get_info(self.at)[0]) if self.is_gpu else 1 << 40


def open_device(names: Sequence[str], index: int) -> Device:
    """The device of the rank with this number, of all that the node has; raises RuntimeError where it is not there."""
    name = names[index]
    torch.set_num_threads(1)
    if name.startswith("cpu-"):
        os.sched_setaffinity(0, {int(name.removeprefix("cpu-"))})
        return Device(name, torch.device("cpu"))
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(names)
    at = torch.device("cuda", index)
    torch.cuda.set_device(at)
    torch.zeros(1, device=at)
    return Device(name, at)


def cpu_names(count: int = MOST_CPU_RANKS) -> list[str]:
    """CPUs for the ranks of a node without GPUs, far from each other."""
    allowed = sorted(os.sched_getaffinity(0))
    count = min(count, len(allowed))
    return [f"cpu-{allowed[place * len(allowed) // count]}" for place in range(count)]


def versions() -> dict[str, str]:
    """Versions that the nodes of a gang should agree on."""
    told: dict[str, Any] = {"torch": torch.__version__, "cuda": torch.version.cuda}
    if torch.version.cuda and torch.distributed.is_nccl_available():
        told["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return {name: str(value) for name, value in told.items() if value}
