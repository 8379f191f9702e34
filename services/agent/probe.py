"""The probe of this machine, run by the agent as `python -I -S probe.py DIRECTORY`: one JSON object on stdout.

Only the standard library is used, and nothing of this project, so that it runs wherever a Python is. It reads passive
facts (CPUs, memory, room in DIRECTORY and in /dev/shm, open files, load, the clock, GPUs by `nvidia-smi` where there is
one) and has every CPU that the process may use multiply two matrices, all of them at once, each pinned to its CPU. The
matrices hold whole numbers that a double holds exactly, so the product has one right value, bit for bit, on every
machine: a CPU whose checksum is another computes wrong. The product is made twice, by the integer unit and by the
floating-point unit. `LIMIT_S` ends a probe that hangs; a CPU that did not answer by then is missing in `checksums`.
"""

from __future__ import annotations

import json
import operator
import os
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Rows = Sequence[Sequence[float]]

SIZE = 112
LIMIT_S = 12
_GPU_LIMIT_S = 8
_GPU_QUERY = ("uuid", "name", "ecc.errors.uncorrected.volatile.total")


def matrix(seed: int) -> list[list[int]]:
    """Rows of whole numbers below 2**20; a product of two such matrices stays far below 2**53."""
    state = seed
    rows: list[list[int]] = []
    for _ in range(SIZE):
        row: list[int] = []
        for _ in range(SIZE):
            state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
            row.append(state >> 44)
        rows.append(row)
    return rows


def multiply(left: Rows, right: Rows) -> list[list[float]]:
    """The product, row by row."""
    columns: list[Any] = list(zip(*right, strict=True))
    return [[sum(map(operator.mul, row, column)) for column in columns] for row in left]


def checksum() -> str:
    """CRC of both products: what every sound CPU gives."""
    left, right = matrix(1), matrix(2)
    crc = 0
    for convert in (int, float):
        product = multiply([list(map(convert, row)) for row in left], [list(map(convert, row)) for row in right])
        for row in product:
            crc = zlib.crc32(struct.pack(f"<{SIZE}q", *map(int, row)), crc)
    return f"{crc:08x}"


def compute_on(cpu: int, pipe: int) -> None:
    """In a child: pin to the CPU, compute, write what came out and how long it took."""
    os.sched_setaffinity(0, {cpu})
    began = time.perf_counter()
    result = checksum()
    os.write(pipe, json.dumps([cpu, result, (time.perf_counter() - began) * 1000]).encode())


def begin(cpu: int) -> tuple[int, int]:
    """Start a child for the CPU; gives its pid and the end of the pipe that its answer comes from."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            compute_on(cpu, writing)
        finally:
            os._exit(0)
    os.close(writing)
    return pid, reading


def compute(cpus: list[int]) -> list[tuple[int, str, float]]:
    """What each CPU gave within the limit, as (cpu, checksum, milliseconds)."""
    children = [begin(cpu) for cpu in cpus]
    deadline = time.monotonic() + LIMIT_S
    answers: list[tuple[int, str, float]] = []
    waiting = [reading for _pid, reading in children]
    while waiting and time.monotonic() < deadline:
        for reading in select.select(waiting, [], [], max(0, deadline - time.monotonic()))[0]:
            waiting.remove(reading)
            answer = os.read(reading, 4096)
            if answer:
                cpu, result, took_ms = json.loads(answer)
                answers.append((cpu, result, took_ms))
    for pid, _reading in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return answers


def memory() -> tuple[int, int]:
    """Total and available memory in bytes."""
    found = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        found[name] = int(value.split()[0]) * 1024
    return found["MemTotal"], found.get("MemAvailable", found["MemFree"])


def free_bytes(directory: str) -> int:
    """Room for us in a file system; 0 where it cannot be asked."""
    try:
        state = os.statvfs(directory)
    except OSError:
        return 0
    return state.f_bavail * state.f_frsize


def gpus() -> list[dict[str, Any]]:
    """GPUs as the driver's own tool lists them; none where there is no such tool or it fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    command = [tool, f"--query-gpu={','.join(_GPU_QUERY)}", "--format=csv,noheader,nounits"]
    try:
        listed = subprocess.run(  # noqa: S603  # the command is fixed
            command, capture_output=True, text=True, timeout=_GPU_LIMIT_S, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [gpu for line in listed.splitlines() if (gpu := gpu_of(line)) is not None]


def gpu_of(line: str) -> dict[str, Any] | None:
    """One line of the tool; None where it is no GPU. ECC that is off or unknown counts as no errors."""
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != len(_GPU_QUERY) or not fields[0].startswith("GPU-"):
        return None
    return {"id": fields[0], "name": fields[1], "uncorrected_errors": int(fields[2]) if fields[2].isdecimal() else 0}


def measure(directory: str) -> dict[str, Any]:
    """Everything, as the JSON object that `shared.agent_wire.Measurement` describes."""
    cpus = sorted(os.sched_getaffinity(0))
    results = compute(cpus)
    total, available = memory()
    checksums: dict[str, list[int]] = {}
    for cpu, result, _ms in sorted(results):
        checksums.setdefault(result, []).append(cpu)
    return {
        "cpus": cpus,
        "memory_bytes": total,
        "memory_free_bytes": available,
        "disk_free_bytes": free_bytes(directory),
        "shm_free_bytes": free_bytes("/dev/shm"),  # noqa: S108  # it is only asked for its room
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        "load": os.getloadavg()[0],
        "unix_ms": time.time_ns() // 1_000_000,
        "checksums": checksums,
        "gemm_ms": max((ms for _cpu, _result, ms in results), default=0.0),
        "gpus": gpus(),
    }


if __name__ == "__main__":
    signal.alarm(LIMIT_S * 2)  # whoever started us may be gone
    json.dump(measure(sys.argv[1]), sys.stdout)
