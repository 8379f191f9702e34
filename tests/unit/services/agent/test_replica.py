"""When a replica's files are complete, and what the engine is told when they are kept."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest

from services.agent.domain.manifest import ManifestError
from services.agent.domain.tail import Look
from services.agent.gangs import Gangs
from services.agent.memory import Memory
from services.agent.replica import Replica, open_replica
from shared.logs_wire import FileRef, Kept, ReplicaRef

REPLICA = ReplicaRef("tj-a", 1, "worker", 0)


def lay(home: Path, tensorboard: str | None = None, index: int = 0) -> Path:
    directory = home / "gangs" / "tj-a-1" / "replicas" / f"worker-{index}"
    directory.mkdir(parents=True)
    for name in ("log", "lock", "exit.json"):
        (directory / name).touch()
    manifest = {"job": "tj-a", "attempt": 1, "role": "worker", "index": index, "node": "n-1", "log": "log"}
    started = {"started_at": "2026-01-01T00:00:00Z", "tensorboard": tensorboard}
    (directory / "ship.json").write_text(json.dumps(manifest | started))
    return directory


def opened(directory: Path, memory: Memory) -> Replica:
    replica = open_replica(directory, memory)
    assert replica is not None
    return replica


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path / "agent")


def test_a_directory_without_a_manifest_or_already_shipped_is_left_alone(tmp_path: Path, memory: Memory):
    directory = lay(tmp_path)
    (directory / "shipped.json").write_text("{}")
    assert open_replica(directory, memory) is None
    (directory / "shipped.json").unlink()
    (directory / "ship.json").unlink()
    assert open_replica(directory, memory) is None


def test_a_manifest_that_cannot_be_read_is_an_error(tmp_path: Path, memory: Memory):
    directory = lay(tmp_path)
    (directory / "ship.json").write_bytes(b"\xff")
    with pytest.raises(ManifestError):
        open_replica(directory, memory)


def test_a_replica_has_ended_when_its_exit_is_written_and_its_lock_is_free(tmp_path: Path, memory: Memory):
    directory = lay(tmp_path)
    replica = opened(directory, memory)
    lock = os.open(directory / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert not replica.has_ended()
    (directory / "exit.json").write_text('{"wait_status": 0}')
    assert not replica.has_ended(), "a descendant may still write"
    os.close(lock)
    assert replica.has_ended()


def test_an_empty_exit_file_is_no_end(tmp_path: Path, memory: Memory):
    assert not opened(lay(tmp_path), memory).has_ended()


def test_a_directory_that_is_gone_has_ended(tmp_path: Path, memory: Memory):
    directory = lay(tmp_path)
    replica = opened(directory, memory)
    directory.rename(tmp_path / "gone")
    assert replica.has_ended()
    replica.finish()


def test_a_replica_is_done_when_every_file_is_kept_and_no_further_can_turn_up(tmp_path: Path, memory: Memory):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a.tfevents").write_bytes(b"x")
    replica = opened(lay(tmp_path, str(tmp_path / "runs")), memory)
    replica.add_event_files(replica.find_event_files())
    replica.add_event_files(replica.find_event_files())
    assert [ref.path for ref in replica.files] == ["", "a.tfevents"]
    for ref in replica.files:
        assert not replica.done
        replica.files[ref].tail.announced(Kept(ref, 0, ended=True), 0)
    assert not replica.done
    replica.all_found = True
    assert replica.done
    assert replica.unfinished("log") == replica.unfinished("tb") == []


def test_the_engine_is_told_and_the_memory_is_cleared(tmp_path: Path, memory: Memory):
    directory = lay(tmp_path)
    replica = opened(directory, memory)
    replica.log.tail.looked(Look(7, 0), 0)
    replica.log.tail.announced(Kept(FileRef(REPLICA), 7, ended=True), 0)
    replica.save()
    assert memory.load(REPLICA)
    replica.finish()
    assert json.loads((directory / "shipped.json").read_text()) == {"bytes": 7}
    assert memory.load(REPLICA) == {}


def test_an_agent_that_is_started_again_goes_on_where_it_was(tmp_path: Path, memory: Memory):
    directory = lay(tmp_path)
    replica = opened(directory, memory)
    replica.log.tail.announced(Kept(FileRef(REPLICA), 5), 0)
    replica.save()
    assert opened(directory, memory).log.tail.offsets.kept == 5


def test_the_scan_finds_new_replicas_once_and_tells_what_to_watch(tmp_path: Path, memory: Memory):
    gangs = Gangs(tmp_path / "gangs", memory)
    assert gangs.scan() == set()
    first, second = lay(tmp_path), lay(tmp_path, index=1)
    (second / "ship.json").write_text("{")
    (tmp_path / "gangs" / ".gone-tj-b-1").mkdir()
    (tmp_path / "gangs" / ".new-tj-c-1").mkdir()
    gang = first.parent.parent
    assert gangs.scan() == {gang.parent, gang, gang / "replicas", first, second}
    assert list(gangs.replicas) == [first]
    replica = gangs.find(REPLICA)
    assert replica is gangs.replicas[first]
    gangs.scan()
    assert gangs.find(REPLICA) is replica
    gangs.finish(gangs.replicas[first])
    gangs.scan()
    assert gangs.find(REPLICA) is None


def test_siblings_are_the_replicas_of_the_same_gang(tmp_path: Path, memory: Memory):
    gangs = Gangs(tmp_path / "gangs", memory)
    directories = {lay(tmp_path), lay(tmp_path, index=1)}
    gangs.scan()
    for directory in directories:
        assert {each.directory for each in gangs.siblings(gangs.replicas[directory])} == directories
    gangs.close()
