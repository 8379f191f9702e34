"""Event files are copied when they rest, again when they have grown, and come back where there are none."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest

from services.logs.adapters import fetching as fetching_module
from services.logs.adapters.archive_index import take_down
from services.logs.adapters.layout import Layout
from services.logs.adapters.segment_files import SegmentReader
from services.logs.adapters.store import LogStore
from services.logs.mirroring import LATE, QUIET_S, Mirroring
from shared import events as ev
from shared.clock import ManualClock
from shared.errors import UnavailableError
from shared.jobs import Job
from shared.logs_wire import FileRef, ReplicaRef, partition_of
from tests.support.jobs import START, job_after, placed

REPLICA = ReplicaRef("tj-a", 1, "worker", 0)
EVENTS = FileRef(REPLICA, "tb", "train/a.tfevents")
KEY = "tj-a/1/worker/0/tb/train/a.tfevents"


class MemoryArchive:
    """Objects in memory; `puts` counts how often something was put there."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.puts = 0
        self.is_away = False

    def names(self, prefix: str) -> list[tuple[str, int]]:
        return [(key, len(content)) for key, content in self.objects.items() if key.startswith(prefix)]

    def read(self, key: str, start: int, length: int) -> bytes:
        return self.objects[key][start : start + length]

    def put(self, key: str, file: Path) -> None:
        if self.is_away:
            raise UnavailableError("the object store does not answer")
        self.puts += 1
        self.objects[key] = file.read_bytes()

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.objects.pop(key, None)


class Scene:
    """A service with an archive, and an event file that was written when the clock began."""

    def __init__(self, root: Path) -> None:
        self.archive, self.clock = MemoryArchive(), ManualClock(START + timedelta(days=1))
        self.store = LogStore(root, self.archive)
        self.store.hold(partition_of(REPLICA.job))
        self.job: Job = job_after(placed(1), ev.Started()).model_copy(update={"id": REPLICA.job})
        self.mirroring = Mirroring(self.store, self, self.clock)
        self.write(b"one")

    def get(self, job_id: str) -> Job | None:
        return self.job if job_id == self.job.id else None

    def write(self, content: bytes) -> None:
        path = self.store.layout.event_file(EVENTS, 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, times=(self.clock.now().timestamp(),) * 2)

    async def look_after(self, seconds: float) -> bytes | None:
        await self.clock.advance(seconds)
        await self.mirroring.look()
        return self.archive.objects.get(KEY)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_a_file_is_copied_when_it_rests_and_again_when_it_has_grown(scene: Scene) -> None:
    assert await scene.look_after(1) is None
    assert await scene.look_after(QUIET_S) == b"one"
    assert await scene.look_after(QUIET_S) == b"one"
    assert scene.archive.puts == 1
    scene.write(b"one two")
    assert await scene.look_after(QUIET_S + 1) == b"one two"


async def test_while_the_archive_is_away_files_wait(scene: Scene) -> None:
    scene.archive.is_away = True
    with pytest.raises(UnavailableError):
        await scene.look_after(QUIET_S + 1)
    scene.archive.is_away = False
    assert await scene.look_after(0) == b"one"


async def test_what_comes_soon_after_the_end_of_a_job_is_copied_too(scene: Scene) -> None:
    scene.job = scene.job.model_copy(update={"ended_at": scene.clock.now()})
    assert await scene.look_after(QUIET_S + 1) == b"one"
    scene.write(b"late")
    assert await scene.look_after(QUIET_S + 1) == b"late"
    await scene.look_after(LATE.total_seconds())
    scene.write(b"after all")
    assert await scene.look_after(QUIET_S + 1) == b"late"


async def test_what_was_deleted_meanwhile_leaves_no_copy(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    put = scene.archive.put

    def put_late(key: str, file: Path) -> None:
        put(key, file)
        scene.store.layout.job(REPLICA.job).rename(scene.store.layout.root / "gone")

    monkeypatch.setattr(scene.archive, "put", put_late)
    assert await scene.look_after(QUIET_S + 1) is None


def test_copies_come_back_to_a_new_directory_and_replace_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching_module, "BLOCK_BYTES", 2)
    archive = MemoryArchive()
    archive.objects = {
        KEY: b"older",
        "tj-a/1/worker/0/tb.2/b.tfevents": b"b",
        "tj-a/1/worker/0/tb/../../evil": b"!",
        "tj-a/1/worker/0/other/x": b"!",
    }
    layout = Layout(tmp_path, archive)
    newer = layout.event_file(EVENTS, 1)
    newer.parent.mkdir(parents=True)
    newer.write_bytes(b"newer")
    assert take_down(layout, SegmentReader(archive), "s3://bucket") == 2
    files = {path.name: path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()}
    assert files == {"a.tfevents": b"newer", "b.tfevents": b"b"}
    newer.unlink()
    assert take_down(layout, SegmentReader(archive), "s3://another") == 2
    assert newer.read_bytes() == b"older"
