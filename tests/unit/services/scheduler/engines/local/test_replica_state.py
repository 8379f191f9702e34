from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.engines.local import replica_state
from services.scheduler.engines.local.files import try_lock
from services.scheduler.engines.local.gang_dir import ReplicaDir
from services.scheduler.engines.local.replica_state import Ended, exit_of
from services.scheduler.ports.reports import ReplicaRef
from shared.clock import ManualClock
from shared.events import OutOfMemory, ReplicaExit

NOW = ManualClock().now()


@pytest.fixture
def replica(tmp_path: Path) -> ReplicaDir:
    return ReplicaDir(tmp_path, ReplicaRef("tj-a", 1, "worker", 0, "n-a"))


def test_empty_files_mean_that_it_never_started(replica: ReplicaDir):
    replica.started.touch()
    replica.exit.touch()

    assert replica_state.started(replica) is None
    assert replica_state.ended(replica) is None


def test_what_the_runner_writes_is_understood(replica: ReplicaDir):
    replica.started.write_text('{"started_at": "2026-01-01T00:00:00.000Z"}\n')
    replica.exit.write_text(
        '{"wait_status": 9, "ended_at": "2026-01-01T00:00:00.000Z", "stopped_by_us": false, "oom": "certain"}\n'
    )

    start, end = replica_state.started(replica), replica_state.ended(replica)

    assert start is not None
    assert start.started_at == NOW
    assert end == Ended(NOW, 9, oom=OutOfMemory.CERTAIN)
    assert exit_of(end) == ReplicaExit(signal=9, out_of_memory=OutOfMemory.CERTAIN)


def test_an_end_is_written_down_once_and_only_where_nothing_runs(replica: ReplicaDir):
    lock = try_lock(replica.lock)
    assert lock is not None
    assert not replica_state.is_settled(replica)
    assert not replica_state.conclude(replica, "lost", "first", ManualClock())
    os.close(lock)

    assert replica_state.is_settled(replica)
    assert replica_state.conclude(replica, "lost", "second", ManualClock())
    assert not replica_state.conclude(replica, "never-started", "third", ManualClock())

    assert replica_state.ended(replica) == Ended(NOW, cause="lost", message="second")
    assert json.loads(replica.exit.read_text())["wait_status"] is None


def test_what_has_started_is_not_written_down_as_never_started(replica: ReplicaDir):
    replica.started.write_text('{"started_at": "2026-01-01T00:00:00.000Z"}')

    assert not replica_state.conclude(replica, "never-started", "", ManualClock())


@given(code=st.integers(0, 255))
def test_exit_codes_come_out_as_they_went_in(code: int):
    assert exit_of(Ended(NOW, code << 8)) == ReplicaExit(code=code)


@given(number=st.sampled_from(list(signal.Signals)), dumped=st.booleans())
def test_signals_come_out_with_or_without_a_core(number: signal.Signals, dumped: bool):
    assert exit_of(Ended(NOW, number | (0x80 if dumped else 0))) == ReplicaExit(signal=number)


def test_causes_tell_who_ended_it():
    assert exit_of(Ended(NOW, 15, stopped_by_us=True)) == ReplicaExit(signal=15, cause="stopped")
    assert exit_of(Ended(NOW, stopped_by_us=True)).cause == "never-started"
    assert exit_of(Ended(NOW, cause="lost", message="why")) == ReplicaExit(cause="lost", message="why")
