"""What was read is remembered over a restart, whole batches or nothing, and only of live jobs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from services.watchdog.adapters.memory import CACHED_SCANS, Changes, Memory, Noticed
from services.watchdog.domain.found import SURVIVED_S, Found, Sighting
from services.watchdog.domain.matching import Scan
from services.watchdog.domain.progress import Progress
from shared.events import ReplicaRef as EventReplica
from shared.logs_wire import ReplicaRef
from tests.support.jobs import START

REPLICA = ReplicaRef("tj-a", 1, "worker", 0)
SCAN = Scan(
    generation=2,
    position=77,
    unfinished=b"\x1b[",
    line=b"half \xff",
    offset=60,
    tail=b"one\ntw\xc3\xb6\n",
    found=frozenset({"message/1"}),
    looks={"message/2": 7},
    block=("rank: 3",),
    progress=Progress(1, 20),
    progress_at_ms=5,
    phase="setup",
    filed_phase="checkpoint",
    checkpoint="step-20.pt",
    ended=True,
)
WORKER = EventReplica(role="worker", index=0)
FOUND = Found("message/1", WORKER, "boom", 10, 40)
NOTICED = Noticed("message/1", WORKER, Sighting("boom", 10, 40))
CHANGES = Changes({REPLICA: SCAN}, ((("tj-a", 1), NOTICED),), {("tj-a", 1): START})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "watchdog" / "memory.sqlite"


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    memory = Memory(path)
    yield memory
    memory.close()


def everything(memory: Memory) -> tuple[object, ...]:
    return memory.scan(REPLICA), memory.found("tj-a", 1), memory.last_output("tj-a", 1), memory.phases("tj-a", 1)


def test_a_log_that_was_never_read_is_read_from_its_start(memory: Memory) -> None:
    assert everything(memory) == (Scan(), (), None, {})


def test_everything_is_there_after_a_restart(memory: Memory, path: Path) -> None:
    memory.commit(CHANGES)
    assert everything(memory) == (SCAN, (FOUND,), START, {"worker-0": "setup"})
    again = Memory(path)
    assert everything(again) == (SCAN, (FOUND,), START, {"worker-0": "setup"})
    again.close()


def test_a_batch_that_cannot_be_kept_changes_nothing(memory: Memory) -> None:
    memory._db.execute("CREATE TRIGGER t BEFORE INSERT ON outputs BEGIN SELECT RAISE(ABORT, 'disk full'); END")
    with pytest.raises(sqlite3.Error, match="disk full"):
        memory.commit(CHANGES)
    assert everything(memory) == (Scan(), (), None, {})


def test_output_never_goes_back(memory: Memory) -> None:
    memory.commit(CHANGES)
    memory.commit(Changes({}, (), {("tj-a", 1): START - timedelta(hours=1)}))
    assert memory.last_output("tj-a", 1) == START


def test_only_live_jobs_are_kept(memory: Memory) -> None:
    memory.commit(CHANGES)
    other = ReplicaRef("tj-b", 1, "worker", 0)
    memory.commit(Changes({other: SCAN}, ((("tj-b", 1), NOTICED),), {("tj-b", 1): START}))
    memory.keep_only(["tj-b"])
    assert everything(memory) == (Scan(), (), None, {})
    assert (memory.scan(other), memory.found("tj-b", 1)) == (SCAN, (FOUND,))
    memory.forget("tj-b")
    assert (memory.scan(other), memory.found("tj-b", 1)) == (Scan(), ())


def test_scans_beyond_the_cache_come_from_the_file(memory: Memory) -> None:
    replicas = [ReplicaRef("tj-a", 1, "worker", index) for index in range(CACHED_SCANS + 10)]
    memory.commit(Changes({replica: Scan(position=replica.index) for replica in replicas}))
    assert len(memory._scans) == CACHED_SCANS
    assert [memory.scan(replica).position for replica in replicas] == list(range(CACHED_SCANS + 10))


@pytest.mark.parametrize("content", [b"this is no database, not at all" * 100, b""])
def test_a_file_that_cannot_be_read_is_begun_anew(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    memory = Memory(path)
    memory.commit(CHANGES)
    assert everything(memory) == (SCAN, (FOUND,), START, {"worker-0": "setup"})
    memory.close()


def test_a_file_of_another_version_is_begun_anew(path: Path) -> None:
    path.parent.mkdir(parents=True)
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 99")
    database.close()
    memory = Memory(path)
    assert everything(memory) == (Scan(), (), None, {})
    memory.close()


def test_of_a_rule_that_is_found_again_the_last_line_is_kept_too(memory: Memory) -> None:
    """Progress in between means that the first line was survived."""
    later_ms = int(SURVIVED_S * 1000) * 10
    scan = replace(SCAN, progress_at_ms=later_ms - 1)
    again = [Noticed("message/1", WORKER, Sighting(f"boom at {offset}", later_ms, offset)) for offset in (900, 700)]
    memory.commit(CHANGES)
    memory.commit(Changes({REPLICA: scan}, tuple((("tj-a", 1), each) for each in again)))
    (found,) = memory.found("tj-a", 1)
    assert (found.line, found.at_ms, found.survived) == ("boom at 900", later_ms, False)
    memory.commit(Changes({REPLICA: replace(scan, progress_at_ms=later_ms * 10)}))
    assert memory.found("tj-a", 1)[0].survived


def test_progress_is_the_furthest_of_all_replicas(memory: Memory) -> None:
    assert memory.progress("tj-a", 1) is None
    other = ReplicaRef("tj-a", 1, "worker", 1)
    memory.commit(Changes({REPLICA: SCAN, other: replace(SCAN, progress=Progress(2, 3))}))
    assert memory.progress("tj-a", 1) == Progress(2, 3)
    assert memory.rules_found("tj-a", 1) == ()
    memory.commit(CHANGES)
    assert memory.rules_found("tj-a", 1) == ("message/1",)
