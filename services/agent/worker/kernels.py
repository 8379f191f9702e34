"""What a rank does with its device alone: multiply, move memory, copy between host and device.

Multiplications have two kinds of data. Small whole numbers: every partial sum is a whole number below 2**24, which
single precision holds exactly, so the product has one right value in whatever order it is summed, and its checksum is
the same on every sound device of every make (the golden one). Drawn numbers with full mantissas load all bits of the
multipliers; their checksum depends on the order of sums, so it is compared with that of like devices. Each product is
made again and again and must be the first to the bit.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .devices import Device
from .steady import measured

EXACT = 31
# The constants of splitmix64, as signed numbers.
_STEP = 0x9E3779B97F4A7C15 - (1 << 64)
_MIXING = ((30, 0xBF58476D1CE4E5B9 - (1 << 64)), (27, 0x94D049BB133111EB - (1 << 64)))
_MANTISSA_BITS = 23
_MANTISSA = (1 << _MANTISSA_BITS) - 1
_ONE = 0x3F800000
_SIZES = {"bf16": (512, 8192), "fp32": (512, 4096)}
_CHECKED_SIZES = (512, 4096)
_TYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
_COPY_BYTES = (32 << 20, 2 << 30)
_HOST_BYTES = (16 << 20, 256 << 20)
_WARM_S = (0.0, 15.0)
_TRIED = 0.7
_TRIED_BYTES = 4 << 20
_FORGETFUL = "memory did not keep what was written"
_TERA, _GIGA = 1e12, 1e9

Result = dict[str, Any]


def drawn(size: int, seed: int, at: torch.device) -> torch.Tensor:
    """A square of whole numbers whose bits follow from the seed, the same on every device (splitmix64)."""
    mixed = (torch.arange(size * size, dtype=torch.int64, device=at) + seed * size * size) * _STEP
    for shift, times in _MIXING:
        mixed = (mixed ^ ((mixed >> shift) & ((1 << (64 - shift)) - 1))) * times
    return (mixed ^ ((mixed >> 31) & ((1 << 33) - 1))).reshape(size, size)


def whole_numbers(size: int, seed: int, kind: torch.dtype, at: torch.device) -> torch.Tensor:
    """The square as numbers from -31 to 31."""
    return (drawn(size, seed, at) % (2 * EXACT + 1) - EXACT).to(kind)


def full_mantissas(size: int, seed: int, kind: torch.dtype, at: torch.device) -> torch.Tensor:
    """The square as numbers from 1 to 2, and from -2 to -1, all bits of whose mantissas are drawn."""
    bits = drawn(size, seed, at)
    absolute = ((bits & _MANTISSA) | _ONE).to(torch.int32).view(torch.float32)
    return (absolute * (1 - 2 * ((bits >> _MANTISSA_BITS) & 1))).to(kind)


def checksum(tensor: torch.Tensor) -> str:
    """CRC of the bytes."""
    here = tensor.contiguous().cpu()
    return f"{zlib.crc32(ctypes.string_at(here.data_ptr(), here.numel() * here.element_size())):08x}"


def compute(device: Device, limit_s: float, enough: Mapping[str, float]) -> Result:
    """Rate of multiplications in each type, checksums, and whether one ever differed."""
    exactly()
    checksums: dict[str, str] = {}
    figures: dict[str, float] = {}
    differing = []
    for name, kind in _TYPES.items():
        size = _CHECKED_SIZES[device.is_gpu]
        checksums[f"{name} exact {size}"] = checksum(_product(device, size, kind))
        figure, first, same = _rate(device, name, limit_s / len(_TYPES), enough)
        checksums[f"{name} like"] = first
        figures[f"{name}Tflops"] = figure
        differing += [] if same else [name]
    problem = f"the same {' and '.join(differing)} product came out differently" if differing else ""
    return {"figures": figures, "checksums": checksums, "problem": problem}


def exactly() -> None:
    """Have sums made in single precision, and no shorter one."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


def _product(device: Device, size: int, kind: torch.dtype) -> torch.Tensor:
    return whole_numbers(size, 1, kind, device.at) @ whole_numbers(size, 2, kind, device.at)


def _rate(device: Device, name: str, limit_s: float, enough: Mapping[str, float]) -> tuple[float, str, bool]:
    """The rate in TFLOP/s, the checksum of the product, and whether all products were the same."""
    size, kind = _SIZES[name][device.is_gpu], _TYPES[name]
    left, right = full_mantissas(size, 3, kind, device.at), full_mantissas(size, 4, kind, device.at)
    first = left @ right
    same = torch.ones((), dtype=torch.bool, device=device.at)

    def sample() -> float:
        made: list[torch.Tensor] = []
        seconds = device.seconds(lambda: made.append(left @ right))
        same.logical_and_((made[0] == first).all())
        return float(2 * size**3 / seconds / _TERA)

    best = measured(sample, enough=enough.get(f"{name}Tflops", 0.0), limit_s=limit_s, warm_s=_WARM_S[device.is_gpu])
    return best, checksum(first), bool(same)


def memory(device: Device, limit_s: float, enough: Mapping[str, float]) -> Result:
    """Bandwidth of copying the device's memory, reading and writing counted, and whether it keeps what is written."""
    size = min(_COPY_BYTES[device.is_gpu], device.free_bytes() // 4)
    best, same = _copying(device, size, limit_s, enough.get("memoryGbS", 0.0))
    problem = "" if same and keeps(device, size if device.is_gpu else _TRIED_BYTES) else _FORGETFUL
    return {"figures": {"memoryGbS": best}, "problem": problem}


def _copying(device: Device, size: int, limit_s: float, enough: float) -> tuple[float, bool]:
    """The bandwidth in GB/s, and whether the copy is the same."""
    source = torch.arange(size // 8, dtype=torch.int64, device=device.at) * _STEP
    target = torch.zeros_like(source)
    moved = 2 * source.numel() * source.element_size()

    def sample() -> float:
        return float(moved / device.seconds(lambda: target.copy_(source)) / _GIGA)

    return measured(sample, enough=enough, limit_s=limit_s), torch.equal(source, target)


def keeps(device: Device, part_bytes: int) -> bool:
    """Whether memory keeps two patterns, each the other's inverse: of a GPU most that is free, of a CPU one part."""
    count = max(int(_TRIED * device.free_bytes()) // part_bytes, 1) if device.is_gpu else 1

    def pattern(number: int, flip: int) -> torch.Tensor:
        return ((torch.arange(part_bytes // 8, dtype=torch.int64, device=device.at) + number) * _STEP) ^ flip

    for flip in (0, -1):
        written = [pattern(number, flip) for number in range(count)]
        if not all(torch.equal(part, pattern(number, flip)) for number, part in enumerate(written)):
            return False
    return True


def host_device(device: Device, limit_s: float, enough: Mapping[str, float]) -> Result:
    """Bandwidth from the host's memory to the device's, and back."""
    size = _HOST_BYTES[device.is_gpu]
    host = torch.arange(size // 8, dtype=torch.int64)
    back = torch.zeros_like(host)
    if device.is_gpu:
        host, back = host.pin_memory(), back.pin_memory()
    there = torch.zeros_like(host, device=device.at)

    def sample_of(work: Callable[[], object]) -> Callable[[], float]:
        return lambda: size / device.seconds(work) / _GIGA

    figures = {}
    for name, work in {
        "hostToDeviceGbS": lambda: there.copy_(host, non_blocking=True),
        "deviceToHostGbS": lambda: back.copy_(there, non_blocking=True),
    }.items():
        figures[name] = measured(sample_of(work), enough=enough.get(name, 0.0), limit_s=limit_s / 2)
    problem = "" if torch.equal(host, back) else "what came back from the device is not what went there"
    return {"figures": figures, "problem": problem}
