"""What fits on one node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.scheduler.domain.nodes import Device, Node, empty_room
from tests.support.cluster import GIB, node, request


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        (request(cores=3), 2),
        (request(cores=1, memory_gib=20), 1),
        (request(gpus=1), 4),
        (request(gpus=3), 1),
        (request(gpus=1, model="H100"), 0),
        (request(cores=9), 0),
    ],
)
def test_a_room_holds_what_its_scarcest_resource_allows(wanted, count):
    assert empty_room(node("a", cores=8, memory_gib=32, gpus=4)).holds(wanted) == count


def test_a_replica_takes_its_share_and_the_first_fitting_devices():
    room, devices = empty_room(node("a", cores=8, memory_gib=32, gpus=4)).take(request(cores=2, gpus=2))
    assert devices == ("a-gpu0", "a-gpu1")
    assert (room.cpu_m, room.memory_bytes) == (6000, 31 * GIB)
    assert [device.id for device in room.devices] == ["a-gpu2", "a-gpu3"]


def test_an_over_committed_room_holds_nothing():
    room = empty_room(node("a", cores=1)).without(request(cores=4), ())
    assert room.cpu_m < 0
    assert room.holds(request(cores=1)) == 0


def test_a_node_is_known_by_its_id_and_by_its_name():
    machine = node("a")
    assert machine.is_named(frozenset({"a"}))
    assert machine.is_named(frozenset({"n-a"}))
    assert not machine.is_named(frozenset({"b"}))


def test_the_whole_of_a_node_includes_what_others_hold_of_it():
    node = Node("n-1", "a", "main", 1000, 10, (Device("g0", "x"),), others_cpu_m=500, others_memory_bytes=5)
    whole = replace(node, others_devices=(Device("g1", "x"),)).whole()
    assert (whole.cpu_m, whole.memory_bytes, len(whole.devices), whole.others_cpu_m) == (1500, 15, 2, 0)
