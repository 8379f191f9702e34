"""Power is cut while submissions are written: whatever was acknowledged is there afterwards.

A cut is made in two steps. The server is halted in the middle of the load, and its store is copied: that is what was
written, synced or not. Then everything that was written after the last acknowledged message is treated as power loss
treats it: the tail of the newest message block is cut at a random byte or turned into zeros, and the files that are
never waited for (the stream's index, the states of consumers, the read model) are cut anywhere, zeroed or gone.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deploy.local.nats_store import mend_store
from shared import events as ev
from shared.bus import Bus, BusOptions, BusUnavailableError, Claim, Transition
from shared.bus.provision import provision
from shared.ids import new_job_id
from shared.readmodel import JobQuery, JobReadModel
from tests.support import jobs
from tests.support.nats import NatsServer
from tests.support.services import eventually

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

SEED = int(os.environ.get("CHAOS_SEED", "1"))
CUTS = 6
WRITERS = 6
_RECORD = struct.Struct("<IQQ")
_HAS_HEADERS = 1 << 31


@dataclass
class Load:
    """Writers that submit jobs for as long as they run; `acknowledged` are those that the server confirmed."""

    bus: Bus
    acknowledged: dict[str, int] = field(default_factory=dict)

    async def write(self) -> None:
        while True:
            job = new_job_id()
            claim = Claim(jobs.event(ev.NameClaimed(name=job), job), owner="u-ada", name=job, expected=0)
            with suppress(BusUnavailableError):
                submission = Transition(jobs.event(jobs.submitted(name=job), job), 0)
                self.acknowledged[job] = await self.bus.append_batch([claim, submission])


@pytest.mark.parametrize("cut", range(CUTS))
async def test_what_was_acknowledged_survives_a_loss_of_power(tmp_path: Path, cut: int) -> None:
    chance = random.Random(f"{SEED}-{cut}")  # noqa: S311  # where to cut is no secret
    acknowledged = await _write_until_the_cut(tmp_path / "before", tmp_path / "after", chance)
    assert acknowledged
    damage = list(_lose_power(tmp_path / "after", max(acknowledged.values()), chance))
    mend_store(tmp_path / "after")  # as the launcher does
    after = NatsServer(tmp_path / "after")
    after.start()
    try:
        await _assert_all_there(after, tmp_path, acknowledged)
    except BaseException:
        print(f"CHAOS_SEED={SEED}, cut {cut}", *damage, sep="\n")  # noqa: T201  # how to see it again
        raise
    finally:
        after.kill()


async def _write_until_the_cut(before: Path, after: Path, chance: random.Random) -> dict[str, int]:
    server = NatsServer(before)
    server.start()
    bus = await server.bus()
    await provision(bus.js)
    model = JobReadModel(before / "jobs.sqlite", bus)
    load = Load(bus)
    tasks = [asyncio.create_task(model.run()), *(asyncio.create_task(load.write()) for _ in range(WRITERS))]
    try:
        await eventually(lambda: _is_warm(load), 30)
        await asyncio.sleep(chance.uniform(0.2, 1.5))
        assert server.process is not None
        os.kill(server.process.pid, signal.SIGSTOP)
        await asyncio.sleep(0.2)  # what was confirmed before the cut arrives
        acknowledged = dict(load.acknowledged)
        shutil.copytree(before, after)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        model.close()
        server.kill()
        await bus.close()
    return acknowledged


async def _is_warm(load: Load) -> bool | None:
    return len(load.acknowledged) > 10 or None


def _lose_power(store: Path, acknowledged: int, chance: random.Random) -> Iterator[str]:
    """Spoil what nobody was promised; gives what was done."""
    messages = next(store.glob("js/jetstream/*/streams/JOBS/msgs"))
    newest = max(messages.glob("*.blk"), key=lambda block: int(block.stem))
    promised = _end_of_message(newest, acknowledged)
    size = newest.stat().st_size
    yield _spoil(newest, chance.randint(promised, size), chance.choice(["cut", "zeros"]))
    unwaited = [*messages.glob("index.db"), *store.rglob("o.dat"), *store.glob("jobs.sqlite*")]
    for file in sorted(unwaited):
        yield _spoil(file, chance.randint(0, file.stat().st_size), chance.choice(["cut", "zeros", "gone", "whole"]))


def _spoil(file: Path, at: int, how: str) -> str:
    size = file.stat().st_size
    with file.open("r+b") as opened:
        if how == "cut":
            opened.truncate(at)
        elif how == "zeros":
            opened.seek(at)
            opened.write(bytes(size - at))
    if how == "gone":
        file.unlink()
    return f"{file.name}: {how} from byte {at} of {size}"


def _end_of_message(block: Path, sequence: int) -> int:
    """Where the record of this message ends in a block of JetStream's file store; 0 where it is in an older block."""
    content, at, end = block.read_bytes(), 0, 0
    while at + _RECORD.size <= len(content):
        length, number, _time = _RECORD.unpack_from(content, at)
        length &= ~_HAS_HEADERS
        if length == 0 or at + length > len(content):
            break
        at += length
        if number & ~(1 << 63) <= sequence:
            end = at
    return end


async def _assert_all_there(server: NatsServer, tmp_path: Path, acknowledged: dict[str, int]) -> None:
    bus = await Bus.connect(BusOptions(server.url, "", ""))
    model = JobReadModel(tmp_path / "after" / "jobs.sqlite", bus)
    following: asyncio.Task[None] | None = None
    try:
        await provision(bus.js)
        for job, sequence in acknowledged.items():
            found = await bus.load_job(job)
            assert found is not None, f"{job} was acknowledged as {sequence} and is gone"
            assert (found.sequence, found.name) == (sequence, job)
        claimed, submitted = await _jobs_in(bus, "tm.name.*"), await _jobs_in(bus, "tm.job.*.state.submitted")
        assert submitted <= claimed, "a job has no name"
        assert len(claimed - submitted) <= 1, "more than the batch that was cut was torn"
        following = asyncio.create_task(model.run())
        await asyncio.wait_for(model.caught_up.wait(), 30)
        listed = {job.id for job in model.query(JobQuery(limit=100_000)).jobs}
        assert set(acknowledged) <= listed
        another = new_job_id()
        await bus.append(jobs.event(jobs.submitted(), another), expected=0)
        await model.reached((await bus.load_job(another)).sequence)  # type: ignore[union-attr]  # it was just written
        assert model.get(another) is not None
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        model.close()
        await bus.close()


async def _jobs_in(bus: Bus, subject: str) -> set[str]:
    return {ev.decode(message.data).subject for message in await bus.history.messages("JOBS", subject)}
