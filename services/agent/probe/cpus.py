"""Every CPU that the process may use multiplies two matrices, all of them at once, each pinned to its CPU.

The matrices hold whole numbers that a double holds exactly, so the product has one right value, bit for bit, on every
machine: a CPU whose checksum is another computes wrong. The product is made by the integer unit and by the
floating-point unit, and all of it `TIMES` times. What counts is processor time, of each part of the product the
quickest: what else runs on the machine takes a CPU away, or the cache, or half of its core, for a moment, and so makes
one part slow at one time; a CPU that is slow itself is slow in every part each time. A CPU that did not answer within
`LIMIT_S` is missing in the answer.
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

Rows = Sequence[Sequence[float]]

SIZE = 64
TIMES = 4
PART_ROWS = 8
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


def factors() -> list[tuple[Rows, Rows]]:
    """What is multiplied by each unit of a CPU: rows of the left matrix, columns of the right one."""
    left, right = matrix(1), matrix(2)
    return [
        ([list(map(convert, row)) for row in left], list(zip(*(map(convert, row) for row in right), strict=True)))
        for convert in (int, float)
    ]


def multiply(rows: Rows, columns: Rows) -> list[list[float]]:
    """These rows of the product."""
    return [[sum(map(operator.mul, row, column)) for column in columns] for row in rows]


def compute_once(products: list[tuple[Rows, Rows]], best_ms: dict[tuple[int, int], float]) -> str:
    """CRC of both products: what every sound CPU gives. Notes of each part the least processor time so far."""
    crc = 0
    for number, (rows, columns) in enumerate(products):
        for first in range(0, SIZE, PART_ROWS):
            began = time.thread_time()
            part = multiply(rows[first : first + PART_ROWS], columns)
            took_ms = (time.thread_time() - began) * 1000
            best_ms[number, first] = min(best_ms.get((number, first), took_ms), took_ms)
            for row in part:
                crc = zlib.crc32(struct.pack(f"<{SIZE}q", *map(int, row)), crc)
    return f"{crc:08x}"


def compute_on(cpu: int, pipe: int) -> None:
    """In a child: pin to the CPU, compute, write what came out (once, where all are alike) and how long it took."""
    os.sched_setaffinity(0, {cpu})
    began = time.perf_counter()
    products, best_ms = factors(), dict[tuple[int, int], float]()
    results = "/".join(dict.fromkeys(compute_once(products, best_ms) for _ in range(TIMES)))
    took_ms = (time.perf_counter() - began) * 1000
    os.write(pipe, json.dumps([cpu, results, took_ms, sum(best_ms.values())]).encode())


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
