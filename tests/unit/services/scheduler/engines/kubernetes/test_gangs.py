"""What the record of a gang says."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from services.scheduler.engines.kubernetes.gangs import EXITS_KEY, exits_data, gang_seen
from services.scheduler.engines.kubernetes.objects.record import record_config_map
from services.scheduler.engines.kubernetes.objects.zipped import zipped
from services.scheduler.engines.kubernetes.pods import Ended
from shared.events import OutOfMemory, ReplicaExit
from shared.kubernetes.names import PHASE_ANNOTATION
from tests.support.gangs import a_gang
from tests.support.jobs import START

CONFIG_MAP_MAX_BYTES = 1 << 20


def record(**annotations: str) -> dict:
    document = record_config_map(a_gang({"master": 1, "worker": 2}), "jobs", "main")
    document["metadata"] |= {"uid": "uid", "resourceVersion": "42"}
    document["metadata"]["annotations"] |= {f"trainmaster.dev/{name}": text for name, text in annotations.items()}
    return document


def test_it_tells_every_replica_and_how_far_the_gang_is():
    seen = gang_seen(record())
    assert list(seen.replicas) == [("master", 0), ("worker", 0), ("worker", 1)]
    assert (seen.version, seen.is_creating, seen.is_stopping) == (42, True, False)


def test_it_tells_the_times_of_its_phases():
    seen = gang_seen(record(**{"phase": "forgotten", "keep-until": "2026-01-01T00:00:00Z"}))
    assert (seen.is_forgotten, seen.is_stopping, seen.keep_until) == (True, True, START)
    assert seen.released_at is None


def with_ends(data: str) -> dict:
    document = record()
    return {**document, "binaryData": {**document["binaryData"], EXITS_KEY: data}}


def test_ends_are_read_as_they_were_written():
    ends = {
        ("worker", 0): Ended(START, ReplicaExit(code=3)),
        ("worker", 1): Ended(START, ReplicaExit(signal=9, out_of_memory=OutOfMemory.CERTAIN, cause="stopped")),
    }
    assert gang_seen(with_ends(exits_data(ends))).noted == ends


def test_ends_that_were_written_in_plain_text_are_read_too():
    plain = json.dumps([["worker", 0, "2026-01-01T00:00:00Z", {"code": 3}]])
    ends = {("worker", 1): Ended(START, ReplicaExit(code=4))}
    seen = gang_seen({**with_ends(exits_data(ends)), "data": {"exits.json": plain}})
    assert {key: end.exit.code for key, end in seen.noted.items()} == {("worker", 0): 3, ("worker", 1): 4}


def test_ends_of_the_largest_gang_have_room_in_its_record():
    lost = ReplicaExit(cause="lost", message="its node gpu-17 evicted it (The node was low on resource: memory. …)" * 4)
    ends = {("worker", index): Ended(START + timedelta(seconds=index % 90), lost) for index in range(10_000)}
    assert len(exits_data(ends)) < CONFIG_MAP_MAX_BYTES / 4


def test_another_config_map_is_no_record():
    assert gang_seen({"metadata": record()["metadata"], "data": {}}) is None


def test_a_record_without_a_phase_is_one_of_a_gang_that_is_being_made():
    document = record()
    del document["metadata"]["annotations"][PHASE_ANNOTATION]
    assert gang_seen(document).is_creating


@pytest.mark.parametrize("spoilt", ["?", "aGVsbG8=", zipped("[[1]]"), zipped("5"), zipped("[" * 100_000)])
def test_notes_that_somebody_has_spoilt_are_none_and_harm_nothing_else(spoilt):
    seen = gang_seen({**with_ends(spoilt), "metadata": record(**{"released-at": "yesterday"})["metadata"]})
    assert not seen.noted
    assert seen.released_at is not None
    assert len(seen.replicas) == 3
