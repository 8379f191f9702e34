"""What ranks do together, over Gloo between CPUs or NCCL between GPUs: pairs of two, and whole gangs.

A group lives for one test. Its members find each other through a store that the first rank of the group's first node
keeps (`Meeting`); each test has a key of its own in there. Every byte that arrives is compared with what must arrive:
ranks fill their blocks with whole numbers that follow from their place, so each knows the one right result.

In a pair, latency is half of the way there and back of eight bytes, bandwidth the mean of both directions of the best
block. In a gang, bandwidths are the bus bandwidths that NVIDIA's tools tell: what each rank had to send at least, over
the time. How often a collective is made again is said by rank 0 to all, since all must make the same ones.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

from .devices import Device
from .steady import Steady
from .tcp import listening

PINGS = 40
SHORT_BYTES = 8
# Of CPUs so short that both are at work for the whole of some blocks, also where other processes take turns with them.
_BLOCK_BYTES = (1 << 20, 256 << 20)
_BLOCKS_A_ROUND = (4, 1)
_FEWEST_BLOCKS = (48, 1)
# Where a busy machine lets few blocks through, so many times the usual time is waited for the fewest.
_LONGER = 5
_MEGA = 1e6
_MICRO = 1e6
_LEAST_S = 0.05

Result = dict[str, Any]


@dataclass(frozen=True)
class Meeting:
    """Where a group's members find each other, this rank's place among them, and how long they may wait and work."""

    host: str
    port: int
    key: str
    place: int
    size: int
    limit_s: float
    work_s: float


class Store:
    """The store that this rank keeps for groups whose first member it is."""

    def __init__(self, host: str) -> None:
        listener = listening(host)
        self.port = int(listener.getsockname()[1])
        # The store takes the descriptor over, and listens on this address alone.
        self._store = distributed.TCPStore(
            host, self.port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach()
        )


@contextmanager
def group(meeting: Meeting, device: Device) -> Iterator[None]:
    """Be in the group. Raises RuntimeError where it does not come together in time."""
    within = timedelta(seconds=meeting.limit_s)
    store = distributed.TCPStore(meeting.host, meeting.port, is_master=False, timeout=within)
    distributed.init_process_group(
        device.backend,
        store=distributed.PrefixStore(meeting.key, store),
        rank=meeting.place,
        world_size=meeting.size,
        timeout=within,
        **({"device_id": device.at} if device.is_gpu else {}),
    )
    try:
        yield
    finally:
        distributed.destroy_process_group()


# --- two -------------------------------------------------------------------------------------------------------------


def pair(meeting: Meeting, device: Device, enough: Mapping[str, float]) -> Result:
    """Latency and bandwidth of the way to the other one, and whether a block was damaged."""
    with group(meeting, device):
        other = 1 - meeting.place
        short = torch.zeros(SHORT_BYTES, dtype=torch.uint8, device=device.at)
        _to_and_fro(short, short, meeting.place, other, device)
        pings = [_to_and_fro(short, short, meeting.place, other, device) for _ in range(PINGS)]
        block = _numbers(_BLOCK_BYTES[device.is_gpu] // 4, 7, device)
        came = torch.zeros_like(block)
        steady = Steady(enough.get("bandwidthMbS", 0.0))
        for _ in _rounds(steady, meeting, device, fewest=_FEWEST_BLOCKS[device.is_gpu]):
            for _ in range(_BLOCKS_A_ROUND[device.is_gpu]):
                seconds = _to_and_fro(block, came, meeting.place, other, device)
                steady.add(2 * block.numel() * block.element_size() / seconds / _MEGA)
        sound = torch.equal(block, came)
    figures = {"latencyUs": statistics.median(pings) / 2 * _MICRO, "bandwidthMbS": steady.best}
    return {"figures": figures} if sound else {"problem": "a block came damaged"}


def _to_and_fro(going: torch.Tensor, coming: torch.Tensor, place: int, other: int, device: Device) -> float:
    """Seconds of a block there and the same block back."""
    began = time.perf_counter()
    if place == 0:
        distributed.send(going, other)
        distributed.recv(coming, other)
    else:
        distributed.recv(coming, other)
        distributed.send(coming, other)
    device.finish()
    return max(time.perf_counter() - began, 1e-9)


# --- all -------------------------------------------------------------------------------------------------------------


def gang(meeting: Meeting, device: Device, sizes: Sequence[int], enough: Mapping[str, float]) -> Result:
    """Bus bandwidth of an all-reduce and an all-to-all of each size; of several sizes the best, each result checked."""
    tests: dict[str, Callable[..., tuple[float, bool]]] = {"allReduceMbS": _all_reduce, "allToAllMbS": _all_to_all}
    figures: dict[str, float] = {}
    wrong: list[str] = []
    with group(meeting, device):
        for name, test in tests.items():
            for size in sizes:
                steady = Steady(enough.get(name, 0.0))
                for _ in _rounds(steady, meeting, device, tests=len(tests) * len(sizes)):
                    seconds, right = test(meeting, device, size)
                    steady.add(size * _SHARES[name](meeting.size) / seconds / _MEGA)
                    wrong += [] if right else [name]
                figures[name] = max(figures.get(name, 0.0), steady.best)
    told = {"allReduceMbS": "all-reduce", "allToAllMbS": "all-to-all"}
    problem = "; ".join(f"the {told[name]} gave a wrong result" for name in sorted(set(wrong)))
    return {"figures": figures, "problem": problem}


# What a rank has to send of a message at least, as a part of it.
_SHARES: Mapping[str, Callable[[int], float]] = {
    "allReduceMbS": lambda count: 2 * (count - 1) / count,
    "allToAllMbS": lambda count: (count - 1) / count,
}


def _all_reduce(meeting: Meeting, device: Device, size: int) -> tuple[float, bool]:
    """Seconds, and whether the result is right: the sum of numbers that differ by the rank."""
    base = _numbers(size // 4, 0, device) % (1 << 16)
    data = base + meeting.place
    seconds = _timed(device, lambda: distributed.all_reduce(data))
    count = meeting.size
    return seconds, torch.equal(data, base * count + count * (count - 1) // 2)


def _all_to_all(meeting: Meeting, device: Device, size: int) -> tuple[float, bool]:
    """Seconds, and whether each rank has what each other one had for it."""
    part = max(size // 4 // meeting.size, 1)
    ranks = torch.arange(meeting.size, dtype=torch.int32, device=device.at)
    pattern = _numbers(part, 1, device) % (1 << 16)
    going = (pattern + (ranks + meeting.place * meeting.size).unsqueeze(1)).flatten()
    due = (pattern + (ranks * meeting.size + meeting.place).unsqueeze(1)).flatten()
    coming = torch.zeros_like(going)
    seconds = _timed(device, lambda: distributed.all_to_all_single(coming, going))
    return seconds, torch.equal(coming, due)


def _timed(device: Device, work: Callable[[], object]) -> float:
    device.finish()
    began = time.perf_counter()
    work()
    device.finish()
    return max(time.perf_counter() - began, 1e-9)


def _rounds(steady: Steady, meeting: Meeting, device: Device, tests: int = 1, fewest: int = 1) -> Iterator[None]:
    """One round after the other, until rank 0 says that the figure is known, or its share of the time is over."""
    within_s = max(meeting.work_s / tests, _LEAST_S)
    began = time.monotonic()
    while True:
        yield
        took_s = time.monotonic() - began
        is_late = took_s >= within_s * (1 if len(steady.samples) >= fewest else _LONGER)
        word = torch.tensor([int(steady.is_known or is_late)], dtype=torch.int32, device=device.at)
        distributed.broadcast(word, 0)
        if word.item():
            return


def _numbers(count: int, seed: int, device: Device) -> torch.Tensor:
    numbers = torch.arange(count, dtype=torch.int32, device=device.at)
    return numbers * 1103515245 + 12345 + seed
