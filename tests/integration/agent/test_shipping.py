"""A real agent, a real NATS and a real logs service: bytes out equal bytes in, whatever ends in between."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from nats.aio.msg import Msg
from torch.utils.tensorboard import SummaryWriter

from services.agent.domain.tail import NOTICE
from shared.bus import Bus
from shared.bus.provision import provision
from shared.bus.streams import LOGS, watchdog_partition
from shared.logs_wire import PHASE_FILE, partition_of
from tests.support.event_files import scalars, version
from tests.support.logs import (
    AgentProcess,
    KeptLogs,
    Running,
    agent_running,
    keeping_logs,
    start_replica,
    submit,
)
from tests.support.nats import NatsServer
from tests.support.services import eventually

MB = 1_000_000


@asynccontextmanager
async def shipping(bus: Bus, home: Path) -> AsyncIterator[tuple[KeptLogs, AgentProcess]]:
    async with keeping_logs(bus, home) as kept, agent_running(home, bus.options.url) as agent:
        yield kept, agent


def stored_event_file(home: Path, job: str, path: str, generation: str = "tb") -> bytes:
    return (home / "logs/store" / job / "1/worker/0" / generation / path).read_bytes()


async def test_a_log_is_shipped_with_its_end_and_the_engine_is_told(bus: Bus, tmp_path: Path):
    async with shipping(bus, tmp_path) as (kept, agent):
        job = await submit(bus)
        replica = start_replica(tmp_path, job)
        replica.write(b"hello\n")
        await kept.until_sized(job, 6)
        replica.write(b"world\n")
        replica.end()
        assert await replica.until_shipped() == 12
        assert await kept.raw(job) == b"hello\nworld\n"
        assert (await kept.sizes(job))[1, "worker", 0] == (12, True)
        assert not list(tmp_path.glob("agent/*"))
        assert await agent.stop() == 0


async def test_a_line_of_100_mb_and_garbage_come_through_beside_a_small_log(bus: Bus, tmp_path: Path):
    async with shipping(bus, tmp_path) as (kept, agent):
        job = await submit(bus, replicas=3)
        huge, garbage, small = (start_replica(tmp_path, job, index) for index in range(3))
        huge.write(b"x" * 100 * MB + b"\n")
        garbage.write(os.urandom(3 * MB) + b"\r 10%\r 20%\x1b[31m\x00\n")
        small.write(b"still here\n")
        for replica in (small, garbage, huge):
            replica.end()
        await asyncio.gather(*(replica.until_shipped(60) for replica in (huge, garbage, small)))
        for index, replica in enumerate((huge, garbage, small)):
            assert await kept.raw(job, index=index) == (replica.path / "log").read_bytes()
        assert _resident_mb(agent.pid) < 80


def _resident_mb(pid: int) -> float:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


async def test_event_files_of_many_writers_are_rebuilt_while_they_grow(bus: Bus, tmp_path: Path):
    runs = tmp_path / "mount" / "runs"
    (runs / "old").mkdir(parents=True)
    (runs / "old" / "events.out.tfevents.0").write_bytes(version())
    os.utime(runs / "old" / "events.out.tfevents.0", (1, 1))
    async with shipping(bus, tmp_path) as (kept, _):
        job = await submit(bus)
        replica = start_replica(tmp_path, job, tensorboard=runs)
        paths = ("events.out.tfevents.1.a", "train/events.out.tfevents.2.b", "val/deep/events.out.tfevents.3.c")
        for step in range(3):
            for path in paths:
                (runs / path).parent.mkdir(parents=True, exist_ok=True)
                with (runs / path).open("ab") as file:
                    file.write(scalars("loss", [float(step)], first_step=step))
            await asyncio.sleep(0.3)
        (runs / "notes.txt").write_text("not shipped")
        replica.end()
        await replica.until_shipped()
        for path in paths:
            assert stored_event_file(tmp_path, job, path) == (runs / path).read_bytes()
        assert not list((tmp_path / "logs/store" / job).rglob("old"))
        answer = await kept.client().get(f"/v1/scalars/{job}")
        assert sorted(curve["run"] for curve in answer.json()["tags"]) == ["", "train", "val/deep"]


async def test_event_files_wait_for_the_other_replicas_of_the_gang(bus: Bus, tmp_path: Path):
    runs = tmp_path / "runs"
    runs.mkdir()
    async with shipping(bus, tmp_path):
        job = await submit(bus, replicas=2)
        first, second = start_replica(tmp_path, job, 0, tensorboard=runs), start_replica(tmp_path, job, 1)
        first.end()
        await asyncio.sleep(0.5)
        (runs / "late.tfevents").write_bytes(b"written by the other one")
        second.end()
        await first.until_shipped()
        assert stored_event_file(tmp_path, job, "late.tfevents") == b"written by the other one"


async def test_a_replaced_event_file_is_kept_beside_the_first(bus: Bus, tmp_path: Path):
    runs = tmp_path / "runs"
    runs.mkdir()
    async with shipping(bus, tmp_path):
        job = await submit(bus)
        replica = start_replica(tmp_path, job, tensorboard=runs)
        (runs / "a.tfevents").write_bytes(b"first")
        await eventually(lambda: _exists(tmp_path / "logs/store" / job / "1/worker/0/tb/a.tfevents"))
        (runs / "new").write_bytes(b"second, longer")
        (runs / "new").rename(runs / "a.tfevents")
        replica.end()
        await replica.until_shipped()
        assert stored_event_file(tmp_path, job, "a.tfevents") == b"first"
        assert stored_event_file(tmp_path, job, "a.tfevents", "tb.2") == b"second, longer"


async def test_a_truncated_event_file_begins_anew_beside_the_first(bus: Bus, tmp_path: Path):
    runs = tmp_path / "runs"
    runs.mkdir()
    first, second = scalars("loss", [1.0, 2.0]), scalars("loss", [3.0], first_step=5)
    async with shipping(bus, tmp_path) as (kept, _):
        job = await submit(bus)
        replica = start_replica(tmp_path, job, tensorboard=runs)
        (runs / "a.tfevents").write_bytes(first)
        await eventually(lambda: _exists(tmp_path / "logs/store" / job / "1/worker/0/tb/a.tfevents"))
        await asyncio.sleep(0.3)
        (runs / "a.tfevents").write_bytes(second)
        replica.end()
        await replica.until_shipped()
        assert stored_event_file(tmp_path, job, "a.tfevents") == first
        assert stored_event_file(tmp_path, job, "a.tfevents", "tb.2") == second
        (curve,) = (await kept.client().get(f"/v1/scalars/{job}")).json()["tags"]
        assert curve["values"] == [1.0, 2.0, 3.0]


async def test_the_real_writers_files_are_shipped_while_they_are_written(bus: Bus, tmp_path: Path):
    """Two writers of torch in one directory, and a third below it, each flushing in the middle of its work."""
    runs = tmp_path / "runs"
    async with shipping(bus, tmp_path) as (kept, _):
        job = await submit(bus)
        replica = start_replica(tmp_path, job, tensorboard=runs)
        writers = [SummaryWriter(str(runs), filename_suffix=f".{n}") for n in range(2)]
        writers.append(SummaryWriter(str(runs / "val")))
        for step in range(20):
            for number, writer in enumerate(writers):
                writer.add_scalar(f"loss/{number}", step / 2, step)
                writer.flush()
            await asyncio.sleep(0.03)
        for writer in writers:
            writer.close()
        replica.end()
        await replica.until_shipped()
        for path in [path for path in runs.rglob("*") if path.is_file()]:
            assert stored_event_file(tmp_path, job, str(path.relative_to(runs))) == path.read_bytes()
        found = (await kept.client().get(f"/v1/scalars/{job}")).json()["tags"]
        assert [(curve["run"], curve["tag"], len(curve["values"])) for curve in found] == [
            ("", "loss/0", 20),
            ("", "loss/1", 20),
            ("val", "loss/2", 20),
        ]


async def test_nothing_outside_the_directory_is_shipped(bus: Bus, tmp_path: Path):
    runs, secret = tmp_path / "runs", tmp_path / "secret.tfevents"
    runs.mkdir()
    secret.write_bytes(b"secret")
    (runs / "link.tfevents").symlink_to(secret)
    (runs / "linked").symlink_to(tmp_path)
    os.mkfifo(runs / "fifo.tfevents")
    async with shipping(bus, tmp_path):
        job = await submit(bus)
        replica = start_replica(tmp_path, job, tensorboard=runs)
        replica.write(b"x")
        replica.end()
        assert await replica.until_shipped() == 1
        assert not list((tmp_path / "logs/store" / job).rglob("*.tfevents"))


async def test_a_truncated_log_begins_anew_behind_a_notice(bus: Bus, tmp_path: Path):
    async with shipping(bus, tmp_path) as (kept, _):
        job = await submit(bus)
        replica = start_replica(tmp_path, job)
        replica.write(b"before\n")
        await kept.until_sized(job, 7)
        os.truncate(replica.path / "log", 0)
        replica.write(b"new\n")
        replica.end()
        await replica.until_shipped()
        assert await kept.raw(job) == b"before\n" + NOTICE + b"new\n"


async def test_an_agent_killed_again_and_again_loses_and_doubles_nothing(bus: Bus, tmp_path: Path):
    async with shipping(bus, tmp_path) as (kept, agent):
        job = await submit(bus, replicas=4)
        replicas = [start_replica(tmp_path, job, index) for index in range(4)]
        writing = asyncio.create_task(_write_for(replicas, 3.0))
        for _ in range(4):
            await asyncio.sleep(0.6)
            await agent.kill()
            await agent.start()
        await writing
        for replica in replicas:
            replica.end()
        await asyncio.gather(*(replica.until_shipped() for replica in replicas))
        for index, replica in enumerate(replicas):
            assert await kept.raw(job, index=index) == (replica.path / "log").read_bytes()


async def _write_for(replicas: list[Running], seconds: float) -> None:
    loop, random_ = asyncio.get_running_loop(), random.Random(7)  # noqa: S311  # the same bytes in every run
    end = loop.time() + seconds
    while loop.time() < end:
        for replica in replicas:
            replica.write(random_.randbytes(random_.choice([10, 1000, 200_000])))
        await asyncio.sleep(0.02)


async def test_everything_may_end_and_come_back_while_logs_are_written(tmp_path: Path):
    """NATS killed, with and without its files; the logs service stopped; the agent killed. Then all is shipped."""
    server, home = NatsServer(tmp_path / "nats"), tmp_path / "home"
    server.start()
    bus = await server.bus()
    await provision(bus.js)
    job = await submit(bus, replicas=2)
    replicas = [start_replica(home, job, index) for index in range(2)]
    async with agent_running(home, server.url) as agent:
        writing = asyncio.create_task(_write_for(replicas, 4.0))
        async with keeping_logs(bus, home):
            await asyncio.sleep(1.0)
            server.kill()
            await asyncio.sleep(0.7)
            await agent.kill()
            server.start()
            await agent.start()
            await asyncio.sleep(1.0)
        await bus.js.purge_stream(LOGS)
        await writing
        for replica in replicas:
            replica.end()
        async with keeping_logs(bus, home) as kept:
            await asyncio.gather(*(replica.until_shipped(40) for replica in replicas))
            for index, replica in enumerate(replicas):
                assert await kept.raw(job, index=index) == (replica.path / "log").read_bytes()
    await bus.close()
    server.kill()


async def test_a_full_transit_makes_the_files_wait(bus: Bus, tmp_path: Path):
    found = (await bus.js.stream_info(LOGS)).config
    await bus.js.update_stream(found.evolve(max_bytes=300_000))
    job = await submit(bus)
    # Nothing of the watchdog runs here, and the transit holds a message until all who are to read it have.
    await bus.js.delete_consumer(LOGS, watchdog_partition(partition_of(job)).durable)
    replica = start_replica(tmp_path, job)
    replica.write(os.urandom(2 * MB))
    replica.end()
    async with agent_running(tmp_path, bus.options.url):
        await eventually(lambda: _says(tmp_path / "agent.log", "refused"))
        async with keeping_logs(bus, tmp_path) as kept:
            await replica.until_shipped()
            assert await kept.raw(job) == (replica.path / "log").read_bytes()


async def _exists(path: Path) -> bool | None:
    return path.exists() or None


async def _says(log: Path, word: str) -> bool | None:
    return True if word in log.read_text() else None


async def test_an_agent_without_nats_waits_and_ends_cleanly_when_asked(tmp_path: Path):
    async with agent_running(tmp_path, "nats://127.0.0.1:1") as agent:
        await eventually(lambda: _says(tmp_path / "agent.log", "Connect call failed"))
        assert agent.process is not None
        assert agent.process.returncode is None
        assert await agent.stop() == 0


async def test_an_agent_stopped_in_the_middle_goes_on_where_it_was(bus: Bus, tmp_path: Path):
    async with shipping(bus, tmp_path) as (kept, agent):
        job = await submit(bus)
        replica = start_replica(tmp_path, job)
        replica.write(b"before\n")
        await kept.until_sized(job, 7)
        assert agent.process is not None
        agent.process.send_signal(signal.SIGTERM)
        assert await agent.process.wait() == 0
        assert '"kept": 7' in (tmp_path / "agent" / f"{job}.1.worker.0.json").read_text()
        replica.write(b"while away\n")
        replica.end()
        await agent.start()
        assert await replica.until_shipped() == 18
        assert await kept.raw(job) == b"before\nwhile away\n"


@pytest.mark.parametrize("ending", ["gone", "renamed"])
async def test_a_directory_that_is_taken_away_is_shipped_to_its_end(bus: Bus, tmp_path: Path, ending: str):
    async with shipping(bus, tmp_path) as (kept, _):
        job = await submit(bus)
        replica = start_replica(tmp_path, job)
        replica.write(b"last words\n")
        await kept.until_sized(job, 11)
        gang = replica.path.parent.parent
        gang.rename(gang.with_name(f".gone-{gang.name}") if ending == "renamed" else tmp_path / "elsewhere")
        await kept.until_ended(job)
        assert await kept.raw(job) == b"last words\n"
        assert not list(tmp_path.glob("agent/*"))


async def test_a_phase_that_is_declared_in_a_file_is_told_and_leaves_the_log_as_it_is(bus: Bus, tmp_path: Path):
    told: list[str] = []

    async def on_chunk(message: Msg) -> None:
        told.append((message.headers or {}).get("Tm-Phase", ""))

    async with shipping(bus, tmp_path) as (kept, _):
        await bus.client.subscribe("tm.log.>", cb=on_chunk)
        job = await submit(bus)
        replica = start_replica(tmp_path, job)
        replica.write(b"saving\n")
        await kept.until_sized(job, 7)
        (replica.path / "tmp").mkdir()
        (replica.path / "tmp" / PHASE_FILE).write_text("checkpoint\n")

        async def look() -> bool | None:
            return True if "checkpoint" in told else None

        await eventually(look)
        replica.write(b"saved\n")
        replica.end()
        assert await replica.until_shipped() == 13
        assert await kept.raw(job) == b"saving\nsaved\n"
