"""A full disk, clocks that jump: bytes out equal bytes in, and nothing else is affected."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from services.logs import ingest as ingest_module
from services.logs.adapters import wal as wal_module
from shared.logs_wire import Chunk, partition_of
from tests.support.logs import KeptLogs, log_of, publish, submit
from tests.support.services import eventually

HOUR_MS = 3_600_000
T0_MS = 1_790_000_000_000


class Disk:
    """Takes nothing for one partition while it is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full_partition = -1
        self.refused = 0
        self._write = wal_module.write_at
        monkeypatch.setattr(wal_module, "write_at", self.write)
        monkeypatch.setattr(ingest_module, "_RETRY_S", 0.1)

    def write(self, fd: int, at: int, data: bytes) -> None:
        if Path(f"/proc/self/fd/{fd}").readlink().parent.name == f"{self.full_partition:02d}":
            self.refused += 1
            self._write(fd, at, data[: len(data) // 2])  # a part may have been written
            raise OSError(errno.ENOSPC, "No space left on device")
        self._write(fd, at, data)


async def jobs_of_two_partitions(kept: KeptLogs) -> tuple[str, str]:
    first = await submit(kept.bus, "job-0")
    for number in range(1, 50):
        second = await submit(kept.bus, f"job-{number}")
        if partition_of(second) != partition_of(first):
            return first, second
    raise AssertionError("all jobs are in one partition")


async def test_a_full_disk_holds_up_what_it_does_not_take_and_loses_nothing(
    kept: KeptLogs, monkeypatch: pytest.MonkeyPatch
):
    disk = Disk(monkeypatch)
    stuck, other = await jobs_of_two_partitions(kept)
    await publish(kept.bus, Chunk(log_of(stuck), 0, b"before\n"))
    await kept.until_sized(stuck, 7)
    disk.full_partition = partition_of(stuck)
    await publish(kept.bus, Chunk(log_of(stuck), 7, b"while full\n"), Chunk(log_of(other), 0, b"other\n"))
    await kept.until_sized(other, 6)

    async def look() -> bool | None:
        return True if disk.refused else None

    await eventually(look)
    assert await kept.raw(stuck) == b"before\n"
    disk.full_partition = -1
    await publish(kept.bus, Chunk(log_of(stuck), 18, b"after\n"), Chunk(log_of(stuck), 24, end=24))
    await kept.until_ended(stuck)
    assert await kept.raw(stuck) == b"before\nwhile full\nafter\n"


async def test_clocks_may_jump_and_every_byte_and_its_order_stay(kept: KeptLogs):
    job = await submit(kept.bus)
    jumps_ms = [0, 1000, -HOUR_MS, -HOUR_MS + 1000, 24 * HOUR_MS, 2000]
    offset, content = 0, b""
    for number, jump_ms in enumerate(jumps_ms):
        line = b"line %d\n" % number
        await publish(kept.bus, Chunk(log_of(job), offset, line, times=((offset, T0_MS + jump_ms),)))
        offset, content = offset + len(line), content + line
    await publish(kept.bus, Chunk(log_of(job), offset, end=offset))
    await kept.until_ended(job)
    assert await kept.raw(job) == content
    page = (await kept.client().get(f"/v1/logs/{job}/lines")).json()
    assert [line["text"] for line in page["items"]] == [f"line {number}" for number in range(len(jumps_ms))]
    for since in ("2020-01-01T00:00:00Z", "2026-09-21T00:00:00Z", "2030-01-01T00:00:00Z"):
        answer = await kept.client().get(f"/v1/logs/{job}/1/worker/0", params={"since": since})
        assert answer.status_code == 200
        assert content.endswith(answer.content)
