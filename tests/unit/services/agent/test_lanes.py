"""The lives of a log and of event files through the passes of their lanes, without a clock and without NATS."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from pathlib import Path

import pytest

from services.agent import lanes as lanes_module
from services.agent.arrivals import Arrivals
from services.agent.checkpoints import Checkpoints
from services.agent.courier import Courier, Times, at_once
from services.agent.gangs import Gangs
from services.agent.inotify import Inotify
from services.agent.lanes import EventFileLane, LogLane
from services.agent.link import Refusal
from services.agent.memory import Memory
from services.agent.phases import PhaseMarks
from shared.logs_wire import Chunk, FileRef, Kept, ReplicaRef

REPLICA = ReplicaRef("tj-a", 1, "worker", 0)
EVENTS = FileRef(REPLICA, "tb", "a.tfevents")


class Transit:
    """Takes chunks, and announces them as kept when told to."""

    def __init__(self) -> None:
        self.connected = True
        self.chunks: list[Chunk] = []
        self.kept: dict[FileRef, bytes] = {}

    async def publish(self, chunk: Chunk, file: int) -> None:
        self.chunks.append(chunk)

    def announce(self, arrivals: Arrivals) -> None:
        for chunk in self.chunks:
            self.kept[chunk.file] = self.kept.get(chunk.file, b"") + chunk.data
            arrivals.on_kept(Kept(chunk.file, chunk.stop, chunk.end is not None, chunk.generation))
        self.chunks.clear()


class Machine:
    """A home with one replica, and both lanes."""

    def __init__(self, home: Path, tensorboard: Path | None = None, checkpoints: Path | None = None) -> None:
        self.now = 0.0
        self.directory = home / "gangs" / "tj-a-1" / "replicas" / "worker-0"
        self.directory.mkdir(parents=True)
        for name in ("log", "lock", "exit.json"):
            (self.directory / name).touch()
        self._lock = os.open(self.directory / "lock", os.O_RDWR)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        manifest = {"job": "tj-a", "attempt": 1, "role": "worker", "index": 0, "node": "n-1", "log": "log"}
        started = {"started_at": "2026-01-01T00:00:00Z", "tensorboard": str(tensorboard) if tensorboard else None}
        saves = {"checkpoints": str(checkpoints) if checkpoints else None}
        (self.directory / "ship.json").write_text(json.dumps(manifest | started | saves))
        self.transit = Transit()
        self.memory = Memory(home / "agent")
        self.gangs = Gangs(home / "gangs", self.memory)
        self.arrivals = Arrivals(self.gangs, lambda: self.now)
        self.inotify = Inotify()
        self.inotify.close()
        courier = Courier(self.transit, Times(lambda: self.now, lambda: 0), at_once)
        self.checkpoints = Checkpoints(self.gangs, self.transit, self.arrivals.wake["log"].set)
        marks = PhaseMarks(self.transit)
        self.logs = LogLane(self.gangs, courier, self.arrivals, self.inotify, marks, self.checkpoints)
        self.events = EventFileLane(self.gangs, courier, self.arrivals)

    def write(self, data: bytes) -> None:
        with (self.directory / "log").open("ab") as log:
            log.write(data)

    def end(self) -> None:
        (self.directory / "exit.json").write_text("{}")
        os.close(self._lock)

    async def passes(self, count: int = 1) -> None:
        for _ in range(count):
            self.now += 1.0
            await self.logs.make_pass(self.now)
            await self.events.make_pass(self.now)


async def test_a_log_is_shipped_from_its_first_byte_to_its_end(tmp_path: Path):
    machine = Machine(tmp_path)
    machine.write(b"hello\n")
    await machine.passes()
    assert [chunk.data for chunk in machine.transit.chunks] == [b"hello\n"]
    machine.transit.announce(machine.arrivals)
    machine.write(b"world\n")
    machine.end()
    await machine.passes()
    assert [(chunk.data, chunk.end) for chunk in machine.transit.chunks] == [(b"world\n", None), (b"", 12)]
    machine.transit.announce(machine.arrivals)
    await machine.passes()
    assert json.loads((machine.directory / "shipped.json").read_text()) == {"bytes": 12}
    assert not list((tmp_path / "agent").iterdir())
    assert not machine.gangs.replicas


async def test_what_is_kept_is_remembered(tmp_path: Path):
    machine = Machine(tmp_path)
    machine.write(b"hello\n")
    await machine.passes()
    machine.transit.announce(machine.arrivals)
    await machine.passes()
    (saved,) = machine.memory.load(REPLICA).values()
    assert (saved.kept, saved.published, saved.fingerprint) == (6, 6, b"hello\n")


async def test_a_new_generation_is_on_disk_before_it_is_sent(tmp_path: Path):
    machine = Machine(tmp_path)
    machine.write(b"before\n")
    await machine.passes()
    os.truncate(machine.directory / "log", 0)
    machine.write(b"new\n")
    await machine.passes()
    assert machine.transit.chunks[-1].generation == 2
    assert machine.memory.load(REPLICA)[FileRef(REPLICA)].generation == 2


async def test_a_refused_chunk_is_sent_again(tmp_path: Path):
    machine = Machine(tmp_path)
    machine.write(b"hello\n")
    await machine.passes()
    machine.arrivals.on_refused(Refusal(REPLICA, file=0, generation=1, offset=0, reason="full"))
    machine.arrivals.on_refused(Refusal(ReplicaRef("tj-b", 1, "worker", 0), 0, 1, 0, "of another machine"))
    await machine.passes()
    assert [chunk.data for chunk in machine.transit.chunks] == [b"hello\n"] * 2


async def test_a_new_connection_sends_again_what_was_not_kept(tmp_path: Path):
    machine = Machine(tmp_path)
    machine.write(b"hello\n")
    await machine.passes()
    machine.transit.connected = False
    machine.arrivals.on_connection(connected=False)
    await machine.passes()
    assert len(machine.transit.chunks) == 1
    machine.transit.connected = True
    machine.arrivals.on_connection(connected=True)
    await machine.passes()
    assert [chunk.offset for chunk in machine.transit.chunks] == [0, 0]


async def test_event_files_are_found_shipped_and_ended(tmp_path: Path):
    runs = tmp_path / "runs"
    runs.mkdir()
    machine = Machine(tmp_path, runs)
    await machine.passes()
    (runs / "a.tfevents").write_bytes(b"abc")
    await machine.passes()
    machine.transit.announce(machine.arrivals)
    with (runs / "a.tfevents").open("ab") as file:
        file.write(b"def")
    (runs / "late.tfevents").write_bytes(b"late")
    machine.end()
    await machine.passes()
    machine.transit.announce(machine.arrivals)
    await machine.passes()
    assert machine.transit.kept == {
        FileRef(REPLICA): b"",
        EVENTS: b"abcdef",
        FileRef(REPLICA, "tb", "late.tfevents"): b"late",
    }
    assert json.loads((machine.directory / "shipped.json").read_text()) == {"bytes": 10}


async def test_a_full_disk_ends_a_pass_and_not_the_lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lanes_module, "_FAILED_S", 0.0)
    machine, failures = Machine(tmp_path), [OSError(28, "no space left"), OSError(28, "no space left")]
    machine.write(b"hello\n")
    save = Memory.save

    def failing_save(self: Memory, *args: object) -> None:
        if failures:
            raise failures.pop()
        save(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Memory, "save", failing_save)
    running = asyncio.create_task(machine.logs.run())
    async with asyncio.timeout(45):
        while not machine.memory.load(REPLICA):
            machine.arrivals.wake_all()
            await asyncio.sleep(0.01)
    running.cancel()
    assert not failures
    assert machine.transit.chunks


async def test_the_end_of_a_log_comes_after_what_was_saved_last(tmp_path: Path):
    machine = Machine(tmp_path, checkpoints=tmp_path)
    machine.write(b"x")
    machine.end()
    await machine.passes()
    assert machine.transit.chunks[-1].end is None
    looks = asyncio.create_task(machine.checkpoints.run())
    await asyncio.wait_for(machine.arrivals.wake["log"].wait(), 45)
    await machine.passes()
    saved, end = machine.transit.chunks[-2:]
    assert saved.checkpoint is not None
    assert end.end == 1
    looks.cancel()
