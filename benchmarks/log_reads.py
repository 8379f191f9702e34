"""How fast logs are opened and searched, over HTTP at a service of its own that has one core.

A log of 10 GB (in segments as they come) and one of 1 GB (packed anew, with one line that holds a rare text) are laid
into the directory of the service with the store's own code. The text is that of `tests.support.training_log`, 64 MB of
it over and over: frames are packed each by itself, so that repetition makes them no smaller. Beside the figures stands
what one core needs to read and unpack the same frames and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.log_ingest import pin, start_logs
from services.logs.adapters.compaction import next_group, pack_anew, remove_replaced
from services.logs.adapters.layout import Layout
from services.logs.adapters.packing import unpack
from services.logs.adapters.segments import SegmentLog, Text
from services.logs.domain.frames import FRAME_BYTES
from services.logs.domain.marks import Marks
from shared.auth.keys import SigningKey
from shared.auth.tokens import TokenIssuer
from shared.bus import Bus
from shared.bus.provision import provision
from shared.clock import SystemClock
from shared.logs_wire import ReplicaRef
from tests.support.logs import ADA, log_settings, submit
from tests.support.nats import NatsServer, free_port
from tests.support.training_log import training_text

NEEDLE = "uncorrectable ECC fault qz7"
_DISTINCT_BYTES = 64_000_000
_PIECES_MS = 200
_T0_MS = 1_790_000_000_000
_OWN_CORE, _OTHER_CORE = 0, 1


@dataclass(frozen=True, slots=True)
class Reads:
    """Seconds, and bytes of text a second."""

    first_tail_s: float
    tails_s: list[float]
    offsets_s: list[float]
    last_200_s: list[float]
    one_frame_s: float
    literal_s: list[float]
    scan_bytes_s: float
    unpack_bytes_s: float


def measure(work: Path, large_bytes: int, searched_bytes: int) -> Reads:
    """Run it all."""
    return asyncio.run(_measure(work, large_bytes, searched_bytes))


async def _measure(work: Path, large_bytes: int, searched_bytes: int) -> Reads:
    server = NatsServer(work / "nats")
    server.start()
    bus = await server.bus()
    try:
        await provision(bus.js)
        home = work / "home"
        text = training_text(5, 3, _DISTINCT_BYTES)
        large = await _laid(bus, home, "large", text, large_bytes, packed=False)
        searched = await _laid(bus, home, "searched", text, searched_bytes, packed=True)
        unpack_bytes_s, one_frame_s = _limits(home, searched)
        port = free_port()
        process = start_logs(home, bus.options.url, port)
        try:
            pin(process.pid, _OWN_CORE)
            os.sched_setaffinity(0, {_OTHER_CORE})
            with _client(home, bus, port) as http:
                return _read(http, large, searched, large_bytes, searched_bytes, unpack_bytes_s, one_frame_s)
        finally:
            process.terminate()
            process.wait()
            os.sched_setaffinity(0, {_OWN_CORE, _OTHER_CORE})
    finally:
        await bus.close()
        server.kill()


async def _laid(bus: Bus, home: Path, name: str, text: bytes, size: int, *, packed: bool) -> str:
    """A job whose only log lies in the directory; gives its id."""
    job = await submit(bus, name)
    log = SegmentLog(Layout(home / "logs").segments(ReplicaRef(job, 1, "worker", 0)))
    needle = f"\n{NEEDLE}\n".encode()
    needle_at = size * 2 // 3
    for offset in range(0, size, FRAME_BYTES):
        start = offset % (len(text) - FRAME_BYTES)
        data = text[start : start + min(FRAME_BYTES, size - offset)]
        if packed and offset <= needle_at < offset + FRAME_BYTES:
            data = data[:1000] + needle + data[1000 + len(needle) :]
        now_ms = _T0_MS + offset // 1000
        marks = Marks(tuple((offset + at, now_ms + at // 1000) for at in range(0, len(data), 16_384)))
        log.append([Text(data, 1, 0, now_ms, now_ms + _PIECES_MS, marks)])
    log.seal(ended=True)
    while packed and (group := next_group(log)) is not None:
        log.exchange(group.segments, pack_anew(log, group))
        remove_replaced(group)
    return job


def _limits(home: Path, job: str) -> tuple[float, float]:
    """Text a second when its frames are read and unpacked and that is all; seconds for one frame."""
    log = SegmentLog(Layout(home / "logs").segments(ReplicaRef(job, 1, "worker", 0)))
    began, size, frames = time.perf_counter(), 0, 0
    for segment in log.snapshot.segments:
        placed = log.reader.frames(segment)
        with log.reader.opened(segment) as file:
            for each in placed:
                size += len(unpack(file.read(each.at, each.frame.packed_bytes), each.frame.length))
                frames += 1
    took = time.perf_counter() - began
    return size / took, took / frames


@contextlib.contextmanager
def _client(home: Path, bus: Bus, port: int) -> Iterator[httpx.Client]:
    log_settings(home, bus.options.url)
    token = TokenIssuer(SigningKey.load((home / "key.pem").read_text()), SystemClock()).issue(ADA).token
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=120, trust_env=False) as http:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.TransportError):
                if http.get("/readyz").status_code == httpx.codes.OK:
                    yield http
                    return
            time.sleep(0.1)
        raise RuntimeError("the logs service did not get ready")


def _read(
    http: httpx.Client,
    large: str,
    searched: str,
    large_bytes: int,
    searched_bytes: int,
    unpack_bytes_s: float,
    one_frame_s: float,
) -> Reads:
    draw = random.Random(1)  # a repeatable load
    path = f"/v1/logs/{large}/1/worker/0"
    first = _timed(http, path, tail=50)
    offsets = [draw.randrange(large_bytes - 100_000) for _ in range(100)]
    scans = [_search(http, searched, "8675309 8675309", 0) for _ in range(3)]  # digits alone: nothing can be left out
    return Reads(
        first_tail_s=first,
        tails_s=[_timed(http, path, tail=50) for _ in range(50)],
        offsets_s=[_timed(http, path, offset=offset, limit=65_536) for offset in offsets],
        last_200_s=[_timed(http, path, tail=200) for _ in range(100)],
        one_frame_s=one_frame_s,
        literal_s=[_search(http, searched, NEEDLE, 1) for _ in range(20)],
        scan_bytes_s=searched_bytes / min(scans),
        unpack_bytes_s=unpack_bytes_s,
    )


def _timed(http: httpx.Client, path: str, **query: int) -> float:
    began = time.perf_counter()
    answer = http.get(path, params=query)
    took = time.perf_counter() - began
    if not answer.content or answer.is_error:
        raise RuntimeError(answer.text)
    return took


def _search(http: httpx.Client, job: str, pattern: str, matches: int) -> float:
    began = time.perf_counter()
    answer = http.get("/v1/log-search", params={"job": job, "pattern": pattern})
    took = time.perf_counter() - began
    if answer.is_error or answer.text.count("event: match") != matches or "event: end" not in answer.text:
        raise RuntimeError(answer.text[:500])
    return took
