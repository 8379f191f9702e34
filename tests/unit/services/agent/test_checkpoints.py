"""What an attempt has saved is told, and the end of its log waits a moment for the last look, and no longer."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path

import pytest

from services.agent import checkpoints as checkpoints_module
from services.agent.checkpoints import EVERY_S, LAST_LOOK_S, Checkpoints
from services.agent.gangs import Gangs
from services.agent.memory import Memory
from services.agent.replica import Replica
from shared.logs_wire import Chunk

STARTED_AT_S = 1_767_225_600.0


class Scene:
    """A machine with one replica that saves below `save`."""

    def __init__(self, home: Path) -> None:
        self.save = home / "mount" / "ckpt"
        self.save.mkdir(parents=True)
        directory = home / "gangs/g/replicas/worker-0"
        directory.mkdir(parents=True)
        manifest = {"job": "tj-a", "attempt": 1, "role": "worker", "index": 0, "node": "n-1", "log": "log"}
        place = {"checkpoints": str(self.save), "checkpoints_root": str(home / "mount")}
        (directory / "ship.json").write_text(json.dumps(manifest | place | {"started_at": "2026-01-01T00:00:00Z"}))
        gangs = Gangs(home / "gangs", Memory(home / "agent"))
        gangs.scan()
        self.replica: Replica = gangs.replicas[directory]
        self.told: list[str | None] = []
        self.woken = asyncio.Event()
        self.checkpoints = Checkpoints(gangs, self, self.woken.set)

    connected = True

    async def publish(self, chunk: Chunk, file: int) -> None:
        assert (chunk.offset, chunk.data, file) == (0, b"", 0)
        self.told.append(chunk.checkpoint)

    def write(self, path: str, at_s: float = STARTED_AT_S + 1) -> None:
        file = self.save / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
        os.utime(file, (at_s, at_s))

    async def look(self, now_s: float) -> None:
        self.checkpoints.look(now_s)
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})


async def test_the_furthest_file_of_this_attempt_is_told_and_links_are_not_followed(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write("step-900/model.pt", at_s=STARTED_AT_S - 10)
    await scene.look(0.0)
    assert scene.told == []
    scene.write("step-100/model.pt")
    scene.write("step-90/model.pt")
    (scene.save / "step-999").symlink_to("step-100")
    await scene.look(1.0)
    assert scene.told == []
    await scene.look(EVERY_S)
    assert scene.told == ["step-100/model.pt"]


async def test_the_end_waits_for_one_look_after_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await scene.look(0.0)
    scene.write("step-1.pt")
    assert scene.checkpoints.holds_end(scene.replica, 1.0)
    await scene.look(1.0)
    assert scene.told == ["step-1.pt"]
    assert scene.woken.is_set()
    assert not scene.checkpoints.holds_end(scene.replica, 1.1)
    await scene.look(2 * EVERY_S)
    assert scene.told == ["step-1.pt"]


async def test_a_file_system_that_hangs_holds_the_end_up_for_a_moment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, hang = Scene(tmp_path), threading.Event()
    monkeypatch.setattr(checkpoints_module, "saved_by", lambda _replica: hang.wait())
    scene.checkpoints.look(0.0)
    assert scene.checkpoints.holds_end(scene.replica, 1.0)
    scene.checkpoints.look(1.0)
    assert not scene.checkpoints.holds_end(scene.replica, 1.0 + LAST_LOOK_S)
    hang.set()


async def test_a_replica_without_a_checkpoint_directory_waits_for_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    manifest = json.loads((scene.replica.directory / "ship.json").read_text()) | {"checkpoints": None}
    (scene.replica.directory / "ship.json").write_text(json.dumps(manifest))
    gangs = Gangs(tmp_path / "gangs", Memory(tmp_path / "agent"))
    gangs.scan()
    (replica,) = gangs.replicas.values()
    assert not Checkpoints(gangs, scene, scene.woken.set).holds_end(replica, 0.0)
