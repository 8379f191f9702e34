"""The watchdog: matching beside ripgrep and Python's `re`, the consumer beside one that does nothing, and its latency.

- Matching: the whole catalogue and 200 messages of a user, over 64 KiB chunks of a training log, on one core; ripgrep
  looks for the same texts in the same bytes as one file, and `re` for one alternation of them.
- Consumer: chunks wait in a JetStream stream; a consumer that only takes and acknowledges them, then the watchdog, in
  turns, of which the quickest of each counts.
- Latency: a platform runs 100 replicas that write all the time, and jobs that print errors with the time of the write;
  a subscriber compares it with the time at which the incident comes. `--quick` leaves this out.
- Corpus: the confusion table of the synthetic failures.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from nats.aio.msg import Msg

from benchmarks.report import Row, percentile, progress, report
from services.watchdog.bootstrap import WatchdogService, bootstrap
from services.watchdog.catalogue import built_in_rules, preset_rows
from services.watchdog.domain import torchrun
from services.watchdog.domain.matching import Scan, take
from services.watchdog.domain.rulebook import Rulebook
from services.watchdog.domain.rules import LineRule
from shared.bus import Bus, BusOptions
from shared.bus.feed import Feed
from shared.bus.streams import watchdog_partition
from shared.logs_wire import CHUNK_MAX_BYTES, Chunk, FileRef, ReplicaRef, chunk_headers, chunk_subject, partition_of
from shared.units import MIB
from tests.support.corpus import confusion
from tests.support.nats import NatsServer
from tests.support.platform import Platform, job_document
from tests.support.watchdog import ADVANCED, TestJob, watchdog_settings

_TEXT_BYTES: Final = 64 * MIB
_PYTHON_BYTES: Final = 4 * MIB
_REPEATS: Final = 5
_TURNS: Final = 3
_CHUNKS: Final = 2_000
_CHATTY: Final = 100
_PROBES: Final = 100
_PROBES_A_JOB: Final = 50
_WRITTEN: Final = re.compile(rb"gave up at (\d{19})")


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    work = Path(tempfile.mkdtemp(prefix="trainmaster-bench-"))
    try:
        rows = [*_matching(work), *asyncio.run(_consuming(work / "nats"))]
        if not quick:
            rows += _latency(work / "home")
        rows.append(_corpus())
    finally:
        shutil.rmtree(work, ignore_errors=True)
    report("watchdog", rows)


# --- matching --------------------------------------------------------------------------------------------------------


def _matching(work: Path) -> Iterator[Row]:
    progress("matching")
    rules = _rules()
    book, text = Rulebook(rules), _training_log(_TEXT_BYTES)
    chunks = [text[start : start + CHUNK_MAX_BYTES] for start in range(0, len(text), CHUNK_MAX_BYTES)]
    ours = _best_gb_s(len(text), lambda: _scan(book, chunks))
    fragments = sorted({each.text for rule in rules for some in rule.any_of for each in some if not each.is_regex})
    peer = _ripgrep_gb_s(work, text, fragments)
    python = _python_gb_s(text[:_PYTHON_BYTES], fragments)
    name = f"matching {len(rules)} rules ({len(fragments)} texts) over 64 KiB chunks"
    yield Row(name, ours, "GB/s", "higher", 1.0, "Python's re", python)
    if peer is None:
        progress("ripgrep is not installed: no figure beside it")
    else:
        yield Row("the same beside ripgrep", ours / peer, "times", "higher", 2.0, "ripgrep, GB/s", peer)
    yield Row("a rulebook made", _making_ms(rules), "ms", "lower")


def _rules() -> list[LineRule]:
    messages = [LineRule.of_texts(f"message/{number}", f"storage volume {number}", "gave up") for number in range(200)]
    catalogue = [rule.line_rule for rule in (*preset_rows(), *built_in_rules())]
    return [*messages, *catalogue, torchrun.HEADER]


def _training_log(size: int) -> bytes:
    lines, total, step = [], 0, 0
    while total < size:
        line = (
            f"2026-11-30 20:{step // 60 % 60:02d}:{step % 60:02d} INFO rank {step % 8} step {step} "
            f"loss {2.3 - step * 1e-7:.5f} lr 1.0e-04 grad_norm {step % 7}.{step % 13} tokens/s {51234 + step % 100}\n"
        ).encode()
        lines.append(line)
        total += len(line)
        step += 1
    return b"".join(lines)[:size]


def _scan(book: Rulebook, chunks: Sequence[bytes]) -> None:
    file, scan = FileRef(ReplicaRef("tj-bench", 1, "worker", 0)), Scan()
    for chunk in chunks:
        scan = take(scan, Chunk(file, scan.position, chunk, times=((scan.position, 1),)), book).scan


def _best_gb_s(size: int, work: Callable[[], None]) -> float:
    """Of several runs the quickest: other work on the machine only ever slows one down."""
    took = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return size / min(took) / 1e9


def _ripgrep_gb_s(work: Path, text: bytes, fragments: Sequence[str]) -> float | None:
    path = shutil.which("rg")
    if path is None:
        return None
    (work / "fragments").write_text("\n".join(fragments) + "\n")
    (work / "log").write_bytes(text)
    command = [path, "--threads", "1", "--ignore-case", "--fixed-strings", "--count", "--file", work / "fragments"]

    def search() -> None:
        subprocess.run([*map(str, command), str(work / "log")], check=False, capture_output=True)

    return _best_gb_s(len(text), search)


def _python_gb_s(text: bytes, fragments: Sequence[str]) -> float:
    pattern = re.compile("|".join(map(re.escape, fragments)).encode(), re.IGNORECASE)
    began = time.perf_counter()
    list(pattern.finditer(text))
    return len(text) / (time.perf_counter() - began) / 1e9


def _making_ms(rules: Sequence[LineRule]) -> float:
    began = time.perf_counter()
    Rulebook(rules)
    return (time.perf_counter() - began) * 1000


# --- the consumer ----------------------------------------------------------------------------------------------------


async def _consuming(store: Path) -> list[Row]:
    progress("consuming chunks")
    server = NatsServer(store)
    server.start()
    try:
        await server.wipe()
        bus = await server.bus()
        turns = [(await _nothing_mb_s(bus), await _watchdog_mb_s(bus, server, store)) for _ in range(_TURNS)]
        nothing, ours = (max(figures) for figures in zip(*turns, strict=True))
        await bus.close()
    finally:
        server.kill()
    return [
        Row("consumer: pull, cut, match, ack", ours, "MB/s", "higher"),
        Row("the same beside one that only acks", ours / nothing, "part", "higher", 0.6, "only acks, MB/s", nothing),
    ]


async def _nothing_mb_s(bus: Bus) -> float:
    job = await TestJob(bus).run()
    await _fill(bus, job.id)
    reaction = watchdog_partition(partition_of(job.id))
    feed, left = Feed(bus, reaction), _CHUNKS
    began = time.perf_counter()
    await feed.open()
    while left > 0:
        messages = await feed.batch()
        for message in messages:
            await message.ack()
        left -= len(messages)
    await _all_acknowledged(bus, job.id)
    took_s = time.perf_counter() - began
    # One that stays open would be sent chunks of the next job, where that is in the same partition.
    await feed.close()
    return _CHUNKS * CHUNK_MAX_BYTES / took_s / 1e6


async def _watchdog_mb_s(bus: Bus, server: NatsServer, home: Path) -> float:
    job = await TestJob(bus).run(retry=ADVANCED)
    async with _running(server, home):
        pass
    await _fill(bus, job.id)
    async with _running(server, home) as service:
        await service.reacts.wait()
        began = time.perf_counter()
        await _all_acknowledged(bus, job.id)
        return _CHUNKS * CHUNK_MAX_BYTES / (time.perf_counter() - began) / 1e6


@asynccontextmanager
async def _running(server: NatsServer, home: Path) -> AsyncIterator[WatchdogService]:
    service = await bootstrap(watchdog_settings(server.url, home / "watchdog"))
    running = asyncio.create_task(service.run())
    try:
        yield service
    finally:
        await service.stop()
        await running


async def _fill(bus: Bus, job: str) -> None:
    text, file = _training_log(_CHUNKS * CHUNK_MAX_BYTES), FileRef(ReplicaRef(job, 1, "worker", 0))
    for start in range(0, len(text), CHUNK_MAX_BYTES):
        data = text[start : start + CHUNK_MAX_BYTES]
        chunk = Chunk(file, start, data, times=((start, 1),), node="n-1")
        await bus.js.publish(chunk_subject(file.replica), data, headers=chunk_headers(chunk))


async def _all_acknowledged(bus: Bus, job: str) -> None:
    reaction = watchdog_partition(partition_of(job))
    while True:
        info = await bus.js.consumer_info(reaction.stream, reaction.durable)
        if not info.num_pending and not info.num_ack_pending:
            return
        await asyncio.sleep(0.02)


# --- latency ---------------------------------------------------------------------------------------------------------


def _latency(home: Path) -> list[Row]:
    progress(f"latency with {_CHATTY} chatty replicas")
    platform = Platform(home)
    platform.up()
    try:
        took_ms = _incident_latencies_ms(platform)
    finally:
        with contextlib.suppress(AssertionError):
            platform.cli("down", "--home", str(home), "--replicas")
    return [
        Row("write of an error to its incident, p50", percentile(took_ms, 50), "ms", "lower", 300),
        Row("write of an error to its incident, p99", percentile(took_ms, 99), "ms", "lower", 700),
    ]


def _incident_latencies_ms(platform: Platform) -> list[float]:
    pools = ["public"]
    small = {"cpu": "1m", "memory": "16Mi", "pools": pools, "pricePerHour": "0.01"}
    metadata = {"name": "chatty"}
    document = {"apiVersion": "trainmaster/v1", "kind": "InstanceType", "metadata": metadata, "spec": small}
    platform.apply(document)
    chatter = "i=0; while true; do i=$((i+1)); echo step $i loss 1.234 tokens/s 5123; sleep 0.2; done"
    chatty = platform.submit(job_document("chatty", chatter, replicas=_CHATTY, instance_type="chatty"))
    platform.await_state(chatty, "Running", timeout_s=120)
    return asyncio.run(_listened(platform))


async def _listened(platform: Platform) -> list[float]:
    """Milliseconds from each probe's write to the arrival of its incident at a subscriber."""
    state = json.loads((platform.home / "platform.json").read_text())
    password = json.loads((platform.home / "config" / "secrets.json").read_text())["nats_passwords"]["platform"]
    bus = await Bus.connect(BusOptions(state["nats_url"], "platform", password))
    took_ms: list[float] = []

    async def on_incident(message: Msg) -> None:
        written = _WRITTEN.search(message.data)
        if written is not None:
            took_ms.append((time.time_ns() - int(written[1])) / 1e6)

    await bus.client.subscribe("tm.job.*.obs.incident.raised", cb=on_incident)
    jobs = [await asyncio.to_thread(platform.submit, _probe(number)) for number in range(_PROBES // _PROBES_A_JOB)]
    for job in jobs:
        await asyncio.to_thread(platform.await_end, job, 180)
    await bus.close()
    if len(took_ms) != _PROBES:
        raise RuntimeError(f"{len(took_ms)} incidents came of {_PROBES}")
    return took_ms


def _probe(number: int) -> dict[str, Any]:
    """Prints different errors, each with the time of the write in nanoseconds."""
    many = _PROBES_A_JOB
    command = f"sleep 2; for i in $(seq {many}); do echo probe$i. gave up at $(date +%s%N); sleep 0.3; done; sleep 2"
    messages = [[f"probe{each}.", "gave up"] for each in range(1, many + 1)]
    retry = {"maxRetries": 1, "on": {"failure": {"policy": "Advanced", "errorMessages": messages}}}
    return job_document(f"probe-{number}", command, instance_type="chatty", retry=retry)


# --- verdicts --------------------------------------------------------------------------------------------------------


def _corpus() -> Row:
    progress("judging synthetic failures")
    judged = confusion()
    print(judged.table())
    for scenario, said in judged.wrong:
        print(f"  wrong: {scenario.name}: it is {scenario.failure_class}, said {said.failure_class} ({said.rule})")
    return Row(f"root replica and class right, of {judged.total}", judged.right * 100, "%", "higher", 98)


if __name__ == "__main__":
    main()
