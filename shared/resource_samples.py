"""What a replica uses of its machine, as lines of a file that the node agent writes and ships like a log.

One line a sample, in JSON with short names, for a job of a month has half a million of them: `t` time in Unix
milliseconds, `c` CPU in cores since the sample before, `m` resident memory in bytes, `p` processes, and `g` for each
GPU that the replica's processes use its id, how busy it is in percent, and its used memory (null: not told).
A line that cannot be read is passed over, so that one more field breaks no reader.

The module imports little, because the agent is meant to be small.
"""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU at a moment."""

    id: str
    busy_percent: float | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class Sample:
    """What a replica used at a moment; memory that processes share is counted in each of them."""

    at_ms: int
    cpu_cores: float
    memory_bytes: int
    processes: int
    gpus: tuple[GpuSample, ...] = ()


def encode_sample(sample: Sample) -> bytes:
    """The line of a sample."""
    document = {
        "t": sample.at_ms,
        "c": round(sample.cpu_cores, 3),
        "m": sample.memory_bytes,
        "p": sample.processes,
        "g": [[gpu.id, gpu.busy_percent, gpu.memory_bytes] for gpu in sample.gpus],
    }
    if not sample.gpus:
        del document["g"]
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def decode_sample(line: bytes) -> Sample | None:
    """The sample of a line; None where it is none."""
    try:
        given = json.loads(line)
        gpus = tuple(GpuSample(str(each[0]), each[1], each[2]) for each in given.get("g", ()))
        return Sample(int(given["t"]), float(given["c"]), int(given["m"]), int(given["p"]), gpus)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return None
