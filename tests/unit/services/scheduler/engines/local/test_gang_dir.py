from __future__ import annotations

from pathlib import Path

import pytest

from services.scheduler.engines.local.gang_dir import GangDir, GangStore, StopRequest, record_of
from services.scheduler.ports.reports import ReplicaRef
from tests.support.local_engine import gang_of
from tests.support.trees import make_deep

GANG = gang_of("one", "two", job="tj-aaaaaaaaaaaa", env={"TOKEN": "secret"})


def create(store: GangStore) -> GangDir:
    return store.create(record_of(GANG, master_port=20001, boot_id="boot", created_at="now"), GANG.id)


def test_a_gang_is_read_back_as_it_was_written(tmp_path: Path):
    store = GangStore(tmp_path / "gangs")
    made = create(store)

    read = GangStore(tmp_path / "gangs").load()[GANG.id]

    assert read.record == made.record
    assert read.replicas["worker", 1].ref == ReplicaRef(GANG.job, 1, "worker", 1, "n-here")
    assert read.replicas["worker", 1].path == tmp_path / "gangs" / GANG.id / "replicas/worker-1"


def test_neither_commands_nor_environments_are_written(tmp_path: Path):
    create(GangStore(tmp_path))

    text = (tmp_path / GANG.id / "gang.json").read_text()

    assert "secret" not in text
    assert "one" not in text


def test_only_the_owner_of_the_platform_may_look_into_it(tmp_path: Path):
    create(GangStore(tmp_path / "gangs"))

    assert [(tmp_path / each).stat().st_mode & 0o777 for each in ("gangs", f"gangs/{GANG.id}/replicas")] == [0o700] * 2


def test_stops_and_oblivion_are_remembered(tmp_path: Path):
    made = create(GangStore(tmp_path))
    assert (made.stop_request, made.is_forgotten) == (None, False)

    made.request_stop(StopRequest(2.5))
    made.forget()

    again = GangStore(tmp_path).load()[GANG.id]
    assert (again.stop_request, again.is_forgotten) == (StopRequest(2.5), True)


@pytest.mark.parametrize("left", ["", '{"grace', "\0\0\0\0"])
def test_a_torn_stop_counts_as_none(left: str, tmp_path: Path):
    gang_dir = create(GangStore(tmp_path))
    (gang_dir.path / "stop").write_text(left)

    assert gang_dir.stop_request is None


def test_what_is_half_made_or_half_removed_goes_and_what_else_lies_there_stays(tmp_path: Path):
    store = GangStore(tmp_path)
    create(store)
    for name in (".new-tj-b-1", ".gone-tj-c-1", "tj-d-1"):
        (tmp_path / name).mkdir()
    (tmp_path / ".bell").touch()

    assert list(store.load()) == [GANG.id]
    assert {path.name for path in tmp_path.iterdir()} == {GANG.id, ".bell"}


def test_no_depth_of_what_a_job_left_keeps_the_store_from_being_read(tmp_path: Path):
    make_deep(tmp_path / ".gone-tj-c-1")

    assert GangStore(tmp_path).load() == {}
    assert list(tmp_path.iterdir()) == []


def test_a_gang_can_be_made_over_what_an_interrupted_call_left(tmp_path: Path):
    (tmp_path / f".new-{GANG.id}/replicas").mkdir(parents=True)

    assert create(GangStore(tmp_path)).id == GANG.id


def test_a_replica_that_never_started_has_nothing_to_ship(tmp_path: Path):
    replica = create(GangStore(tmp_path)).replicas["worker", 0]
    replica.path.mkdir()
    assert replica.is_shipped

    replica.ship.touch()
    assert not replica.is_shipped

    (replica.path / "shipped.json").touch()
    assert replica.is_shipped
