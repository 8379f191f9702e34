"""The probe of this machine, run by the agent as `python -I -S probe.py DIRECTORY`: a JSON object on stdout.

Only the standard library is used, and nothing of this project, so that it runs wherever a Python is. It reads passive
facts (CPUs, memory, room in DIRECTORY and in /dev/shm, open files, load, the clock, whether the machine's own name
resolves, GPUs by `nvidia-smi` where there is one) and has every CPU that the process may use multiply two matrices, all
of them at once, each pinned to its CPU. The matrices hold whole numbers that a double holds exactly, so the product has
one right value, bit for bit, on every machine: a CPU whose checksum is another computes wrong. The product is made by
the integer unit and by the floating-point unit, and all of it twice: the quicker one counts, in processor time, so that
what else runs on the machine does not make a sound CPU look slow. `LIMIT_S` ends a probe that hangs; a CPU that did not
answer by then is missing in `checksums`.

`probe.py places JSON` looks at directories instead, given as an object of paths: whether each can be read, and where
its value is true, written. Only rights and mount flags are looked at, nothing is written. It is a process of its own,
since a file system whose server is gone may never answer.
"""

from __future__ import annotations

import json
import operator
import os
import resource
import select
import shutil
import signal
import socket
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
    first, second = timed_checksum(), timed_checksum()
    results = first[0] if first[0] == second[0] else f"{first[0]}/{second[0]}"
    took_ms = (time.perf_counter() - began) * 1000
    os.write(pipe, json.dumps([cpu, results, took_ms, min(first[1], second[1])]).encode())


def timed_checksum() -> tuple[str, float]:
    """The checksum, and how many milliseconds of processor time it took."""
    began = time.thread_time()
    return checksum(), (time.thread_time() - began) * 1000


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


def compute(cpus: list[int]) -> list[tuple[int, str, float, float]]:
    """What each CPU gave within the limit, as (cpu, checksum, milliseconds, milliseconds of processor time)."""
    children = [begin(cpu) for cpu in cpus]
    deadline = time.monotonic() + LIMIT_S
    answers: list[tuple[int, str, float, float]] = []
    waiting = [reading for _pid, reading in children]
    while waiting and time.monotonic() < deadline:
        for reading in select.select(waiting, [], [], max(0, deadline - time.monotonic()))[0]:
            waiting.remove(reading)
            answer = os.read(reading, 4096)
            if answer:
                answers.append(tuple(json.loads(answer)))
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


def kind() -> str:
    """What machine this is: those of one kind can be compared."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return f"{next(models, os.uname().machine)}, Python {sys.version_info[0]}.{sys.version_info[1]}"


def looked_at(places: dict[str, bool]) -> dict[str, list[str]]:
    """Places that cannot be read, and those that must be writable and are not; one that is missing can be made."""
    there = {place: _nearest(place) for place in places}
    readable = [place for place in places if os.access(there[place], os.R_OK | os.X_OK)]
    return {
        "unreachable": [place for place in places if place not in readable],
        "read_only": [place for place in readable if places[place] and not _is_writable(there[place])],
    }


def _nearest(place: str) -> str:
    """The place, or the first directory above it that there is."""
    return next(str(path) for path in (Path(place), *Path(place).absolute().parents) if path.exists())


def _is_writable(place: str) -> bool:
    return os.access(place, os.W_OK) and not os.statvfs(place).f_flag & os.ST_RDONLY


def resolves() -> bool:
    """Whether the machine's own name has an address."""
    try:
        return bool(socket.getaddrinfo(socket.gethostname(), None))
    except OSError:
        return False


def measure(directory: str) -> dict[str, Any]:
    """Everything, as the JSON object that `shared.agent_wire.Measurement` describes."""
    cpus = sorted(os.sched_getaffinity(0))
    results = compute(cpus)
    total, available = memory()
    checksums: dict[str, list[int]] = {}
    for cpu, result, _ms, _cpu_ms in sorted(results):
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
        "gemm_ms": max((ms for _cpu, _result, ms, _cpu_ms in results), default=0.0),
        "gpus": gpus(),
        "kind": kind(),
        "device_ms": {f"cpu-{cpu}": round(cpu_ms, 3) for cpu, _result, _ms, cpu_ms in results},
        "read_only": looked_at({directory: True})["read_only"],
        "resolves": resolves(),
    }


if __name__ == "__main__":
    signal.alarm(LIMIT_S * 2)  # whoever started us may be gone
    json.dump(looked_at(json.loads(sys.argv[2])) if sys.argv[1] == "places" else measure(sys.argv[1]), sys.stdout)
