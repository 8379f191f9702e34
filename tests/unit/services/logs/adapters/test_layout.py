"""Where things are on disk, and what is found there again."""

from __future__ import annotations

from pathlib import Path

from services.logs.adapters.layout import Layout
from shared.logs_wire import FileRef, ReplicaRef

REPLICA = ReplicaRef("tj-a", 2, "worker", 10)
EVENTS = FileRef(REPLICA, "tb", "train/a.tfevents")


def touch(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def test_replicas_are_found_by_their_directories(tmp_path: Path):
    layout = Layout(tmp_path)
    others = [ReplicaRef("tj-a", 1, "master", 0), ReplicaRef("tj-b", 1, "worker", 0)]
    for replica in (REPLICA, *others):
        touch(layout.replica(replica) / "seg")
    assert set(layout.replicas("tj-a")) == {REPLICA, others[0]}
    assert list(layout.replicas("tj-c")) == []


def test_generations_of_event_files_lie_side_by_side_and_are_found_in_order(tmp_path: Path):
    layout = Layout(tmp_path)
    assert layout.last_generation(EVENTS) == 1
    for generation in (1, 2, 10):
        touch(layout.event_file(EVENTS, generation))
    touch(layout.event_file(FileRef(REPLICA, "tb", "other.tfevents"), 11))
    assert layout.last_generation(EVENTS) == 10
    found = [path for path, _ in layout.event_files(REPLICA)]
    assert found == ["train/a.tfevents"] * 3 + ["other.tfevents"]
    assert layout.event_file(EVENTS, 1) == layout.replica(REPLICA) / "tb/train/a.tfevents"
