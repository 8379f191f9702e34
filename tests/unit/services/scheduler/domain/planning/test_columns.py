"""The counts of the column store are right after any changes, and those of a copy are its own."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.domain.nodes import NodeState
from services.scheduler.domain.planning.columns import Columns
from tests.support.cluster import POOLS, clusters, columns, node, request, requests

moves = st.lists(st.tuples(requests, st.integers(0, 5), st.integers(1, 3), st.booleans()), max_size=8)


def counted(free: Columns, pool: str, wanted) -> list[int]:
    """What each row holds, counted node by node."""
    here = POOLS[pool]
    rooms = [free.room(row) for row in range(len(free))]
    usable = [room.node.state is NodeState.READY and here.has(room.node) for room in rooms]
    return [room.holds(wanted) if fine else 0 for room, fine in zip(rooms, usable, strict=True)]


@given(clusters, moves, st.lists(requests, min_size=1, max_size=3))
def test_counts_follow_every_change_and_are_those_of_a_rebuild(cluster, steps, asked):
    free = columns(cluster, POOLS)
    for wanted, row, most, anew in steps:
        free = free.copy() if anew else free
        for shape in asked:
            assert free.holds("public", shape).tolist() == counted(free, "public", shape)
        if row < len(free):
            count = min(int(free.holds("team", wanted)[row]), most)
            free.take(wanted, np.array([row]), np.array([count]))
    for shape in asked:
        assert free.holds("team", shape).tolist() == counted(free, "team", shape)


@given(clusters, requests)
def test_what_is_taken_from_a_copy_is_still_in_the_original(cluster, wanted):
    free = columns(cluster, POOLS)
    before = free.holds("public", wanted).tolist()
    rows = np.flatnonzero(free.holds("public", wanted))
    other = free.copy()
    other.take(wanted, rows, other.holds("public", wanted)[rows])
    assert not other.holds("public", wanted).any()
    assert free.holds("public", wanted).tolist() == before == counted(free, "public", wanted)


def test_a_part_has_the_rows_and_devices_of_its_nodes():
    free = columns([node("a", gpus=1), node("b", gpus=4), node("c", gpus=2)])
    part = free.part(1, 3)
    assert part.holds("public", request(gpus=1)).tolist() == [4, 2]
    assert part.take(request(gpus=1), np.array([0]), np.array([3])).tolist() == [0b111]
    assert [device.id for device in part.room(0).devices] == ["b-gpu3"]
    assert free.holds("public", request(gpus=1)).tolist() == [1, 4, 2]


def test_idle_nodes_have_more_to_spare_than_any_other():
    free = columns([node("a", cores=2), node("b", cores=64)])
    free.take(request(), np.array([1]), np.array([1]))
    spare = free.spare(request(), slice(None))
    assert spare[1] < spare[0]
