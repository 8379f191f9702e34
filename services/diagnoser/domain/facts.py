"""What a look at a node gives in numbers, and the limit of each: room, open files, the clock. Pure.

Facts differ between sound nodes, and so only their limits judge; the report has all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from services.diagnoser.domain.hardware import facts_of_hardware
from services.diagnoser.domain.readings import Reading
from shared.agent_facts import Gpu
from shared.agent_wire import Measurement
from shared.events import FigureMeasured
from shared.units import MIB, format_bytes


@dataclass(frozen=True, slots=True)
class Floors:
    """What a node must have at least, or at most."""

    disk_free_bytes: int = 256 * MIB
    shm_free_bytes: int = 16 * MIB
    memory_free_bytes: int = 64 * MIB
    open_files: int = 1024
    gemm_ms: float = 30_000.0
    clock_skew_s: float = 1.0


def facts_of(reading: Reading, floors: Floors) -> tuple[FigureMeasured, ...]:
    """All facts of the look; `why` says which break their limits."""
    measured = reading.measurement
    return (
        _gemm(measured.gemm_ms, floors.gemm_ms),
        *_rooms(reading, floors),
        _open_files(measured.open_files, floors.open_files),
        _clock(reading, floors.clock_skew_s),
        FigureMeasured(name="clock known to within", value=round(reading.clock_known_to_s, 3), unit="s"),
        FigureMeasured(name="CPUs", value=len(measured.cpus), unit=""),
        FigureMeasured(name="GPUs", value=len(measured.gpus), unit=""),
        *_given(measured),
        FigureMeasured(name="memory", value=_mib(measured.memory_bytes), unit="MiB"),
        FigureMeasured(name="load", value=round(measured.load, 2), unit=""),
        *facts_of_hardware(measured),
    )


def _given(measured: Measurement) -> Iterator[FigureMeasured]:
    """Of GPUs that the kubelet gives: how many pods have, and how many are used by nobody that it gave them to."""
    if measured.kubelet_gives and measured.gpus:
        given, used = ([gpu for gpu in measured.gpus if each(gpu)] for each in (_is_given, _is_used))
        yield FigureMeasured(name="GPUs that are not free", value=len(given), unit="")
        yield FigureMeasured(name="GPUs that others use", value=len(used), unit="")


def _is_given(gpu: Gpu) -> bool:
    return bool(gpu.given_to)


def _is_used(gpu: Gpu) -> bool:
    return bool(gpu.used_by) and not gpu.given_to


def _gemm(took_ms: float, most_ms: float) -> FigureMeasured:
    why = f"the matrix multiplication took {took_ms:.0f} ms; at most {most_ms:.0f} ms are allowed"
    return FigureMeasured(
        name="time of the multiplications",
        value=round(took_ms, 1),
        unit="ms",
        floor=most_ms,
        less_is_better=True,
        why=why if took_ms > most_ms else "",
    )


def _rooms(reading: Reading, floors: Floors) -> Iterator[FigureMeasured]:
    measured = reading.measurement
    amounts = (
        ("room on the disk", "on the platform's disk", measured.disk_free_bytes, floors.disk_free_bytes),
        ("room in /dev/shm", "in /dev/shm", measured.shm_free_bytes, floors.shm_free_bytes),
        ("free memory", "of memory", measured.memory_free_bytes, floors.memory_free_bytes),
    )
    for name, place, free, floor in amounts:
        why = f"{format_bytes(free)} {place} are free; at least {format_bytes(floor)} are needed"
        yield FigureMeasured(
            name=name, value=_mib(free), unit="MiB", floor=_mib(floor), why=why if free < floor else ""
        )


def _open_files(allowed: int, floor: int) -> FigureMeasured:
    why = f"a process may open {allowed} files; at least {floor} are needed" if allowed < floor else ""
    return FigureMeasured(name="open files", value=allowed, unit="", floor=floor, why=why)


def _clock(reading: Reading, most_s: float) -> FigureMeasured:
    """Off is a clock that is so for certain."""
    skew_s, within_s = abs(reading.clock_skew_s), reading.clock_known_to_s
    side = "ahead" if reading.clock_skew_s > 0 else "behind"
    why = f"its clock is off by {skew_s:.1f} s ({side}, known to {within_s:.2g} s); at most {most_s:g} s are allowed"
    return FigureMeasured(
        name="clock off by",
        value=round(skew_s, 3),
        unit="s",
        floor=most_s,
        less_is_better=True,
        why=why if skew_s - within_s > most_s else "",
    )


def _mib(size_bytes: int) -> float:
    return round(size_bytes / MIB, 1)
