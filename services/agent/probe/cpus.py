"""Every CPU that the process may use multiplies two matrices, all of them at once, each pinned to its CPU.

The matrices hold whole numbers that a double holds exactly, so the product has one right value, bit for bit, on every
machine: a CPU whose checksum is another computes wrong. The product is made by the integer unit and by the
floating-point unit, and all of it twice: the quicker one counts, in processor time, so that what else runs on the
machine does not make a sound CPU look slow. A CPU that did not answer within `LIMIT_S` is missing in the answer.
"""

from __future__ import annotations

import json
import operator
import os
import select
import signal
import struct
import time
import zlib
from collections.abc import Sequence
from typing import Any

Rows = Sequence[Sequence[float]]

SIZE = 112
LIMIT_S = 12


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
