"""From the transit into the store: acknowledged only when durable, announced, taken up again after any end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

from shared import events as ev
from shared.bus import Bus
from shared.bus.provision import provision
from shared.bus.streams import DLQ, LOGS, logs_partition
from shared.logs_wire import Chunk, FileRef, Kept, ReplicaRef, chunk_subject, partition_of
from tests.support.logs import (
    KeptLogs,
    announcements,
    keeping_logs,
    log_of,
    log_settings,
    publish,
    start_and_end,
    submit,
    tell,
)
from tests.support.nats import NatsServer
from tests.support.services import eventually


async def until(found: list[Kept], wanted: Kept) -> None:
    async def look() -> bool | None:
        return True if wanted in found else None

    await eventually(look)


async def unacknowledged(bus: Bus, job: str) -> int:
    info = await bus.js.consumer_info(LOGS, logs_partition(partition_of(job)).durable)
    return int(info.num_ack_pending or 0) + int(info.num_pending or 0)


async def test_what_is_kept_is_announced_and_acknowledged(kept: KeptLogs):
    job = await submit(kept.bus)
    heard = await announcements(kept.bus)
    await publish(kept.bus, Chunk(log_of(job), 0, b"hello"))
    await until(heard, Kept(log_of(job), 5))
    await publish(kept.bus, Chunk(log_of(job), 5, end=5))
    await until(heard, Kept(log_of(job), 5, ended=True))

    async def look() -> bool | None:
        return True if await unacknowledged(kept.bus, job) == 0 else None

    await eventually(look)


async def test_a_gap_is_announced_and_filled_later(kept: KeptLogs):
    job = await submit(kept.bus)
    heard = await announcements(kept.bus)
    await publish(kept.bus, Chunk(log_of(job), 5, b"world"))
    await until(heard, Kept(log_of(job), 0, gap=True))
    await publish(kept.bus, Chunk(log_of(job), 0, b"hello"), Chunk(log_of(job), 5, b"world"))
    await until(heard, Kept(log_of(job), 10))
    assert await kept.raw(job) == b"helloworld"


async def test_a_repeat_is_announced_so_that_the_agent_learns(kept: KeptLogs):
    job = await submit(kept.bus)
    await publish(kept.bus, Chunk(log_of(job), 0, b"hello"))
    await kept.until_sized(job, 5)
    heard = await announcements(kept.bus)
    await publish(kept.bus, Chunk(log_of(job), 0, b"hel"))
    await until(heard, Kept(log_of(job), 5))
    assert await kept.raw(job) == b"hello"


async def test_what_is_no_chunk_is_buried_and_the_rest_goes_on(kept: KeptLogs):
    job = await submit(kept.bus)
    subject = chunk_subject(log_of(job).replica)
    await kept.bus.js.publish(subject, b"no headers")
    await kept.bus.js.publish(subject, b"x", headers={"Tm-Kind": "tb", "Tm-Offset": "0", "Tm-Path": "..%2Fescape"})
    await publish(kept.bus, Chunk(log_of(job), 0, b"hello"))
    await kept.until_sized(job, 5)
    info = await kept.bus.js.stream_info(DLQ)
    assert info.state.messages == 2


async def test_chunks_wait_in_the_transit_while_the_service_is_away(bus: Bus, tmp_path: Path):
    async with keeping_logs(bus, tmp_path) as kept:
        job = await submit(bus)
        await publish(bus, Chunk(log_of(job), 0, b"before\n"))
        await kept.until_sized(job, 7)
    await publish(bus, Chunk(log_of(job), 7, b"while away\n"))
    async with keeping_logs(bus, tmp_path) as kept:
        await publish(bus, Chunk(log_of(job), 18, b"after\n"), Chunk(log_of(job), 24, end=24))
        await kept.until_ended(job)
        assert await kept.raw(job) == b"before\nwhile away\nafter\n"


async def test_a_killed_service_loses_and_doubles_nothing_that_was_announced(bus: Bus, tmp_path: Path):
    """Killed with -9 again and again while chunks come; an agent's part is played by sending from what is kept."""
    settings = log_settings(tmp_path, bus.options.url)
    environment = {
        **os.environ,
        "TRAINMASTER_HOME": str(tmp_path),
        "TRAINMASTER_NATS_URL": settings.nats_url,
        "TRAINMASTER_JWKS_FILE": str(settings.jwks_file),
    }
    jobs = [await submit(bus, f"job-{number}") for number in range(6)]
    content = {job: os.urandom(400_000) for job in jobs}
    reached = dict.fromkeys(jobs, 0)
    heard = await announcements(bus)
    for _ in range(3):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "services.logs", env=environment, stderr=asyncio.subprocess.DEVNULL
        )
        before = sum(reached.values())
        async with asyncio.timeout(60):
            while sum(reached.values()) < before + 300_000:
                for job in jobs:
                    data = content[job][reached[job] : reached[job] + 20_000]
                    await publish(bus, Chunk(log_of(job), reached[job], data))
                await asyncio.sleep(0.05)
                reached |= {answer.file.replica.job: answer.kept for answer in heard}
                heard.clear()
        process.kill()
        await process.wait()
    assert all(reached.values())
    async with keeping_logs(bus, tmp_path) as kept:
        for job in jobs:
            sizes = await kept.sizes(job)
            stored = await kept.raw(job)
            assert sizes[1, "worker", 0][0] == len(stored) >= reached[job]
            assert content[job].startswith(stored)


async def test_nats_may_be_killed_and_come_back(tmp_path: Path):
    server = NatsServer(tmp_path / "nats")
    server.start()
    bus = await server.bus()
    await provision(bus.js)
    async with keeping_logs(bus, tmp_path / "home") as kept:
        job = await submit(bus)
        await publish(bus, Chunk(log_of(job), 0, b"before\n"))
        await kept.until_sized(job, 7)
        server.kill()
        await asyncio.sleep(0.5)
        server.start()

        async def send() -> bool | None:
            with contextlib.suppress(Exception):
                await publish(bus, Chunk(log_of(job), 7, b"after\n"))
                return True
            return None

        await eventually(send)
        await kept.until_sized(job, 13, limit_s=45)
        assert await kept.raw(job) == b"before\nafter\n"
        await bus.close()
    server.kill()


async def test_a_deleted_job_leaves_nothing(kept: KeptLogs, tmp_path: Path):
    job, other = await submit(kept.bus), await submit(kept.bus, "other")
    for each in (job, other):
        events = FileRef(ReplicaRef(each, 1, "worker", 0), "tb", "a.tfevents")
        await publish(kept.bus, Chunk(log_of(each), 0, b"hello\n"), Chunk(log_of(each), 6, end=6))
        await publish(kept.bus, Chunk(events, 0, b"events"))
        await start_and_end(kept.bus, each)
        await kept.until_ended(each)
    await tell(kept.bus, job, ev.Deleted(by="u-ada"))

    async def look() -> bool | None:
        return None if (tmp_path / "home/logs/store" / job).exists() else True

    await eventually(look)
    assert (await kept.client().get(f"/v1/logs/{job}")).status_code == 404
    assert await kept.raw(other) == b"hello\n"
