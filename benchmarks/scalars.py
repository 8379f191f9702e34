"""Scalars: a million points in a hundred tags, read cold and warm, next to TensorBoard's own reader in the same run."""

from __future__ import annotations

import asyncio
import math
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from fastapi import FastAPI
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from benchmarks.report import Row, percentile, progress, report
from services.logs.adapters.bells import Bells
from services.logs.adapters.layout import Layout
from services.logs.api.scalars import scalars_router
from services.logs.domain.crc32c import masked_crcs
from services.logs.scalar_handlers import ScalarHandlers
from services.logs.scalars import ScalarReader
from shared.auth.principal import Principal
from shared.http.app import create_app
from shared.ids import UserId
from shared.logs_wire import FileRef, ReplicaRef

JOB = "tj-bench"
_TAGS = 100
_STEPS = 10_000
_WARM_READS = 15


def main() -> None:
    """Measure and report the scalars alone."""
    report("scalars", list(scalar_rows()))


def scalar_rows() -> Iterator[Row]:
    """The figures about scalars; `benchmarks.logs` shows them beside its own."""
    work = Path(tempfile.mkdtemp(prefix="trainmaster-bench-scalars-"))
    try:
        progress("writing a million scalars")
        file = _write_event_file(Layout(work))
        progress("reading them")
        cold, listed, read = asyncio.run(_times(Layout(work)))
        progress("reading them with TensorBoard's EventAccumulator")
        accumulator = _accumulator_s(file.parent)
        yield Row("a million scalars, cold read", cold, "s", "lower", accumulator / 5, "EventAccumulator", accumulator)
        yield Row("list of their 100 tags, warm, p95", percentile(listed, 95) * 1000, "ms", "lower", 300)
        yield Row("down-sampled read of all, warm, p95", percentile(read, 95) * 1000, "ms", "lower", 300)
    finally:
        shutil.rmtree(work, ignore_errors=True)


async def _times(layout: Layout) -> tuple[float, list[float], list[float]]:
    """Seconds of a cold read, of lists and of reads, each through the whole HTTP application."""
    transport = httpx.ASGITransport(_app(layout))
    headers = {"Authorization": "Bearer x"}
    async with httpx.AsyncClient(transport=transport, base_url="http://bench", headers=headers) as client:
        cold = await _took(client, f"/v1/scalars/{JOB}")
        listed = [await _took(client, f"/v1/scalars/{JOB}/tags") for _ in range(_WARM_READS)]
        read = [await _took(client, f"/v1/scalars/{JOB}?points=500") for _ in range(_WARM_READS)]
    return cold, listed, read


async def _took(client: httpx.AsyncClient, path: str) -> float:
    began = time.perf_counter()
    answer = await client.get(path, timeout=120)
    took = time.perf_counter() - began
    answer.raise_for_status()
    document = answer.json()
    if len(document.get("tags") or document.get("items")) != _TAGS:
        raise RuntimeError(f"{path} gave {answer.text[:200]}")
    return took


def _app(layout: Layout) -> FastAPI:
    handlers = ScalarHandlers(_AnyJob(), ScalarReader(layout), Bells())
    return create_app(service="logs", title="bench", routers=[scalars_router(handlers)], auth=_Anybody())


class _Anybody:
    def authenticate(self, token: str) -> Principal:  # noqa: ARG002  # a port's signature
        return Principal(UserId("u-bench"), "bench")


class _AnyJob:
    """One job, whoever asks; what is measured is the reading."""

    id = JOB
    ended = False

    async def find(self, principal: Principal, reference: str) -> Any:  # noqa: ARG002  # a port's signature
        return self

    async def reload(self, job: Any) -> Any:  # noqa: ARG002  # a port's signature
        return self


def _write_event_file(layout: Layout) -> Path:
    """A file as SummaryWriter would write it, tag after tag at each step."""
    ref = FileRef(ReplicaRef(JOB, 1, "worker", 0), "tb", "events.out.tfevents.1")
    file = layout.event_file(ref, 1)
    file.parent.mkdir(parents=True)
    tags = [f"group{number % 7}/metric_{number}".encode() for number in range(_TAGS)]
    with file.open("wb") as out:
        for first in range(0, _STEPS, 1000):
            payloads = [
                _payload(tag, step, math.sin(step / 100) + number)
                for step in range(first, first + 1000)
                for number, tag in enumerate(tags)
            ]
            out.write(_framed(payloads))
    return file


def _payload(tag: bytes, step: int, value: float) -> bytes:
    inner = b"\x0a" + bytes([len(tag)]) + tag + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(inner)]) + inner
    low, high = step & 0x7F, step >> 7
    step_field = (b"\x10" + (bytes([low | 0x80, high]) if high else bytes([low]))) if step else b""
    return b"\x09" + struct.pack("<d", 1.7e9 + step) + step_field + b"\x2a" + bytes([len(summary)]) + summary


def _framed(payloads: list[bytes]) -> bytes:
    """The records of payloads, with all checksums made at once."""
    heads = b"".join(struct.pack("<Q", len(payload)) for payload in payloads)
    lengths = np.array([len(payload) for payload in payloads], np.int64)
    starts = np.arange(len(payloads), dtype=np.int64) * 8
    head_crcs = masked_crcs(np.frombuffer(heads, np.uint8), starts, np.full(len(payloads), 8, np.int64))
    bodies = np.frombuffer(b"".join(payloads), np.uint8)
    body_crcs = masked_crcs(bodies, np.cumsum(lengths) - lengths, lengths)
    crcs = zip(head_crcs.tolist(), body_crcs.tolist(), strict=True)
    return b"".join(
        struct.pack("<QI", len(payload), head) + payload + struct.pack("<I", body)
        for payload, (head, body) in zip(payloads, crcs, strict=True)
    )


def _accumulator_s(directory: Path) -> float:
    """TensorBoard's reader, asked to keep every point as we do."""
    began = time.perf_counter()
    accumulator = EventAccumulator(str(directory), size_guidance={"scalars": 0})
    accumulator.Reload()
    took = time.perf_counter() - began
    if sum(len(accumulator.Scalars(tag)) for tag in accumulator.Tags()["scalars"]) != _TAGS * _STEPS:
        raise RuntimeError("EventAccumulator did not find all points")
    return took


if __name__ == "__main__":
    main()
