"""How fast the logs service makes log text durable: one process of it on one core, fed from a full transit.

The text of a thousand replicas lies in the stream before the service starts, in chunks as agents send them; nats-server
has the other core. Time counts from the first acknowledged message to the last. Beside it stand plain `zstd -1` of the
same text, and a consumer of the same messages that does nothing but acknowledge.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from services.logs.adapters.segment_files import parse_name, walk
from shared.bus import Bus, BusOptions
from shared.bus.feed import Feed
from shared.bus.provision import provision
from shared.bus.streams import LOGS, logs_partition, watchdog_partition
from shared.logs_wire import LOG_PARTITIONS, Chunk, FileRef, ReplicaRef, chunk_headers, chunk_subject
from tests.support.logs import log_settings
from tests.support.nats import NatsServer
from tests.support.training_log import training_text

REPLICAS = 1000
CHUNK_BYTES = 16 * 1024
_JOBS = 40
_WINDOW = 256
_T0_MS = 1_790_000_000_000
_OWN_CORE, _OTHER_CORE = 0, 1


@dataclass(frozen=True, slots=True)
class Ingested:
    """What the service took, how fast, with how much memory, and what it stored; and what others did with the same."""

    text_bytes: int
    wall_s: float
    cpu_s: float
    resident_mib: float
    ratio_at_once: float
    ratio_compacted: float
    bare_consumer_s: float
    zstd_s: float
    zstd_bytes: int


def measure(work: Path, bytes_each: int) -> Ingested:
    """Run it all."""
    texts = _texts(bytes_each)
    packer = zstandard.ZstdCompressor(level=1)
    began = time.perf_counter()
    zstd_bytes = sum(len(packer.compress(text)) for text in texts)
    zstd_s = time.perf_counter() - began
    return asyncio.run(_measure(work, texts, zstd_s, zstd_bytes))


async def _measure(work: Path, texts: list[bytes], zstd_s: float, zstd_bytes: int) -> Ingested:
    server = NatsServer(work / "nats")
    server.start()
    pin(server.pid, _OTHER_CORE)
    bus = await server.bus()
    await provision(bus.js)
    for number in range(LOG_PARTITIONS):  # a message is gone when the last consumer has it, and here is one only
        await bus.js.delete_consumer(LOGS, watchdog_partition(number).durable)
    try:
        await _fill(bus, texts)
        bare_s = await _bare_consumer_s(bus)
        await _fill(bus, texts)
        home = work / "home"
        figures = await _run_service(home, bus)
    finally:
        await bus.close()
        server.kill()
    return Ingested(sum(map(len, texts)), *figures, bare_s, zstd_s, zstd_bytes)


def _texts(bytes_each: int) -> list[bytes]:
    """The logs of a thousand replicas: no two begin or go on alike."""
    whole = (training_text(seed, seed * 7, 8 * bytes_each) for seed in range(REPLICAS // 8))
    return [text[part * bytes_each : (part + 1) * bytes_each] for text in whole for part in range(8)]


def _replica(number: int) -> ReplicaRef:
    """Each job has 25 replicas; the jobs are spread over the partitions."""
    return ReplicaRef(f"tj-bench{number % _JOBS:04d}", 1, "worker", number // _JOBS)


def _chunks(texts: list[bytes]) -> Iterator[Chunk]:
    """All chunks in the order of time, each replica at the same pace, and the end marks behind them."""
    for at in range(0, max(map(len, texts)), CHUNK_BYTES):
        for number, text in enumerate(texts):
            if at < len(text):
                times = ((at, _T0_MS + at // CHUNK_BYTES * 200),)
                yield Chunk(FileRef(_replica(number)), at, text[at : at + CHUNK_BYTES], times=times, node="n-1")
    for number, text in enumerate(texts):
        yield Chunk(FileRef(_replica(number)), len(text), end=len(text))


async def _fill(bus: Bus, texts: list[bytes]) -> None:
    slots = asyncio.Semaphore(_WINDOW)

    async def send(chunk: Chunk) -> None:
        try:
            subject = chunk_subject(chunk.file.replica)
            await bus.js.publish(subject, chunk.data, headers=chunk_headers(chunk), timeout=60)
        finally:
            slots.release()

    async with asyncio.TaskGroup() as sending:
        for chunk in _chunks(texts):
            await slots.acquire()
            sending.create_task(send(chunk))


async def _left(bus: Bus) -> int:
    return int((await bus.js.stream_info(LOGS)).state.messages)


async def _bare_consumer_s(bus: Bus) -> float:
    """Seconds in which a consumer that keeps nothing acknowledges everything; on the core that the service gets."""
    script = "import asyncio, sys; from benchmarks.log_ingest import drain; asyncio.run(drain(sys.argv[1]))"
    process = subprocess.Popen([sys.executable, "-c", script, bus.options.url])
    pin(process.pid, _OWN_CORE)
    try:
        return (await _until_empty(bus))[0]
    finally:
        process.kill()
        process.wait()


async def drain(url: str) -> None:
    """Acknowledge everything in the transit, for ever."""
    bus = await Bus.connect(BusOptions(url, "", "", name="drain"))

    async def one(number: int) -> None:
        feed = Feed(bus, logs_partition(number))
        await feed.open()
        while True:
            for message in await feed.batch():
                await message.ack()

    works: list[Coroutine[Any, Any, None]] = [one(number) for number in range(LOG_PARTITIONS)]
    await asyncio.gather(*works)


async def _until_empty(bus: Bus) -> tuple[float, float]:
    """Seconds from the first message that went to the last, and when that first one was."""
    full = await _left(bus)
    began = 0.0
    while (left := await _left(bus)) > 0:
        if not began and left < full:
            began = time.perf_counter()
        await asyncio.sleep(0.01)
    return time.perf_counter() - began, began


async def _run_service(home: Path, bus: Bus) -> tuple[float, float, float, float, float]:
    process = start_logs(home, bus.options.url)
    pin(process.pid, _OWN_CORE)
    try:
        full, cpu_began = await _left(bus), 0.0
        while await _left(bus) == full:
            cpu_began = _cpu_s(process.pid)
            await asyncio.sleep(0.01)
        began = time.perf_counter()
        while await _left(bus) > 0:
            await asyncio.sleep(0.01)
        wall_s, cpu_s = time.perf_counter() - began, _cpu_s(process.pid) - cpu_began
        resident_mib = _peak_mib(process.pid)
        at_once = _ratio(home, packed=False)
        while sum(_is_packed(path) for path in _segments(home)) < REPLICAS:
            await asyncio.sleep(0.2)
    finally:
        process.terminate()
        process.wait()
    return wall_s, cpu_s, resident_mib, at_once, _ratio(home, packed=True)


def start_logs(home: Path, nats_url: str, port: int = 0) -> subprocess.Popen[bytes]:
    """A logs service in a process of its own."""
    settings = log_settings(home, nats_url)
    environment = {
        **os.environ,
        "TRAINMASTER_HOME": str(home),
        "TRAINMASTER_NATS_URL": settings.nats_url,
        "TRAINMASTER_JWKS_FILE": str(settings.jwks_file),
        "TRAINMASTER_PORT": str(port),
        "TRAINMASTER_LOG_LEVEL": "WARNING",
    }
    return subprocess.Popen([sys.executable, "-m", "services.logs"], env=environment)


def _segments(home: Path) -> list[Path]:
    return list(home.glob("logs/store/*/*/*/*/seg-*.zst"))


def _is_packed(path: Path) -> bool:
    name = parse_name(path.name)
    return name is not None and name.stop is not None


def _ratio(home: Path, *, packed: bool) -> float:
    """Bytes of text over bytes in files, headers, indexes and filters included."""
    text = size = 0
    for path in _segments(home):
        if _is_packed(path) != packed:
            continue
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:  # it may be packed anew at this moment
            segment = _File(file.fileno())
            text += sum(placed.frame.length for placed in walk(segment, verify=False))
            size += segment.size
    return text / size


@dataclass(frozen=True, slots=True)
class _File:
    fd: int

    @property
    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def read(self, at: int, length: int) -> bytes:
        return os.pread(self.fd, length, at)


def pin(pid: int, core: int) -> None:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024
