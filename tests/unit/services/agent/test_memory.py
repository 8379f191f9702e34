"""What the agent remembers comes back; what is damaged counts as forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.agent.domain.tail import SavedTail
from services.agent.memory import Memory
from shared.logs_wire import FileRef, ReplicaRef

REPLICA = ReplicaRef("tj-a", 1, "worker", 0)
LOG = SavedTail(FileRef(REPLICA), 2, 100, 120, b"\x00\xffabc")
EVENTS = SavedTail(FileRef(REPLICA, "tb", "train/odd \udcff.tfevents"), 1, 5, 5)


def test_what_was_saved_is_loaded_by_another_agent(tmp_path: Path):
    Memory(tmp_path / "agent").save(REPLICA, [LOG, EVENTS])
    assert Memory(tmp_path / "agent").load(REPLICA) == {LOG.file: LOG, EVENTS.file: EVENTS}


def test_nothing_is_known_of_another_replica_or_one_that_was_forgotten(tmp_path: Path):
    memory = Memory(tmp_path)
    memory.save(REPLICA, [LOG])
    assert memory.load(ReplicaRef("tj-a", 1, "worker", 1)) == {}
    memory.forget(REPLICA)
    memory.forget(REPLICA)
    assert memory.load(REPLICA) == {}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"files": [{}]}', b'{"files": 7}', b"\xff\xfe"])
def test_a_damaged_file_counts_as_forgotten(tmp_path: Path, content: bytes):
    memory = Memory(tmp_path)
    memory.save(REPLICA, [LOG])
    (tmp_path / f"{REPLICA.tokens}.json").write_bytes(content)
    assert memory.load(REPLICA) == {}


def test_only_whole_files_are_left(tmp_path: Path):
    memory = Memory(tmp_path)
    for _ in range(3):
        memory.save(REPLICA, [LOG])
    assert [path.name for path in tmp_path.iterdir()] == [f"{REPLICA.tokens}.json"]
