"""Several instances on one directory: the work is shared, each answers for all, and one may die at any moment."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from services.logs.bootstrap import bootstrap
from shared.bus import Bus
from shared.errors import UnavailableError
from shared.logs_wire import LOG_PARTITIONS, Chunk, partition_of
from tests.support.logs import KeptLogs, keeping_logs, log_of, log_settings, publish, submit
from tests.support.services import eventually


async def until_shared(*instances: KeptLogs) -> None:
    async def look() -> bool | None:
        held = sorted(number for kept in instances for number in kept.service._store.held)
        sizes = [len(kept.service._store.held) for kept in instances]
        return True if held == list(range(LOG_PARTITIONS)) and max(sizes) - min(sizes) <= 1 else None

    await eventually(look, 20)


async def send_lines(bus: Bus, jobs: list[str], first: int, count: int) -> None:
    for number in range(first, first + count):
        for job in jobs:
            line = b"line %06d\n" % number
            await publish(bus, Chunk(log_of(job), number * len(line), line))


def lines(count: int) -> bytes:
    return b"".join(b"line %06d\n" % number for number in range(count))


async def test_two_instances_share_the_partitions_and_each_reads_all(bus: Bus, tmp_path: Path):
    async with keeping_logs(bus, tmp_path, instance="one") as one, keeping_logs(bus, tmp_path, instance="two") as two:
        await until_shared(one, two)
        jobs = [await submit(bus, f"job-{number}") for number in range(6)]
        assert len({partition_of(job) in one.service._store.held for job in jobs}) <= 2
        await send_lines(bus, jobs, 0, 20)
        for kept in (one, two):
            for job in jobs:
                await kept.until_sized(job, len(lines(20)))
                assert await kept.raw(job) == lines(20)
        await send_lines(bus, jobs, 20, 5)
        for kept in (one, two):
            for job in jobs:
                await kept.until_sized(job, len(lines(25)))


async def test_a_follower_gets_everything_while_partitions_move(bus: Bus, tmp_path: Path):
    async with keeping_logs(bus, tmp_path, instance="one") as one:
        job = await submit(bus)
        got: list[str] = []
        following = asyncio.create_task(follow(one, job, got))
        await send_lines(bus, [job], 0, 10)
        async with keeping_logs(bus, tmp_path, instance="two") as two:
            await until_shared(one, two)
            await send_lines(bus, [job], 10, 10)
            await until_got(got, lines(20))
        await until_shared(one)
        await send_lines(bus, [job], 20, 10)
        await until_got(got, lines(30))
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following


async def test_when_an_instance_is_killed_the_other_goes_on_with_its_partitions(bus: Bus, tmp_path: Path):
    settings = log_settings(tmp_path, bus.options.url)
    environment = {
        **os.environ,
        "TRAINMASTER_HOME": str(tmp_path),
        "TRAINMASTER_NATS_URL": settings.nats_url,
        "TRAINMASTER_JWKS_FILE": str(settings.jwks_file),
        "TRAINMASTER_INSTANCE": "other",
    }
    async with keeping_logs(bus, tmp_path, instance="one") as one:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "services.logs", env=environment, stderr=asyncio.subprocess.DEVNULL
        )
        await eventually(lambda: has_left_half(one), 30)
        jobs = [await submit(bus, f"job-{number}") for number in range(8)]
        await send_lines(bus, jobs, 0, 30)
        for job in jobs:
            await one.until_sized(job, len(lines(30)))
        process.kill()
        await process.wait()
        await until_shared(one)
        await send_lines(bus, jobs, 30, 10)
        for job in jobs:
            await one.until_sized(job, len(lines(40)))
            assert await one.raw(job) == lines(40)


async def test_two_of_one_name_are_one_too_many(bus: Bus, tmp_path: Path):
    async with keeping_logs(bus, tmp_path, instance="one"):
        settings = log_settings(tmp_path, bus.options.url).model_copy(update={"instance": "one"})
        with pytest.raises(UnavailableError, match="name this one differently"):
            await bootstrap(settings)


async def has_left_half(kept: KeptLogs) -> bool | None:
    return True if len(kept.service._store.held) == LOG_PARTITIONS // 2 else None


async def until_got(got: list[str], wanted: bytes) -> None:
    async def look() -> bool | None:
        return True if "".join(got).encode() == wanted else None

    await eventually(look, 20)


async def follow(kept: KeptLogs, job: str, got: list[str]) -> None:
    import json

    async with kept.client().stream("GET", f"/v1/logs/{job}/follow") as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                document: dict[str, Any] = json.loads(line.removeprefix("data: "))
                got.append(document.get("text", ""))
