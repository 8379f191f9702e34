"""A gang is placed whole or not at all."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.domain.gang import Gang, Pool, RoleAsk
from services.scheduler.domain.nodes import NodeState, empty_room
from services.scheduler.domain.planning.fit import fit, take
from tests.support.cluster import (
    POOLS,
    ask,
    clusters,
    columns,
    fitted,
    gang,
    node,
    nodes_of,
    place,
    request,
    requests,
    roles,
)


class TestOneRole:
    def test_replicas_share_a_node_and_spill_over_to_the_next(self):
        seats = place(gang(ask(3, cores=4)), node("a", cores=8), node("b", cores=8))
        assert nodes_of(seats) == ["n-a", "n-a", "n-b"]
        assert [seat.index for seat in seats] == [0, 1, 2]

    def test_the_tightest_node_is_filled_first(self):
        assert nodes_of(place(gang(ask(1, cores=2)), node("a", cores=8), node("b", cores=3))) == ["n-b"]

    def test_work_without_gpus_stays_off_gpu_nodes_while_it_can(self):
        assert nodes_of(place(gang(ask(1)), node("a", cores=2, gpus=8), node("b", cores=64))) == ["n-b"]

    def test_a_gang_that_does_not_fit_whole_gets_nothing(self):
        assert place(gang(ask(5, cores=4)), node("a", cores=8), node("b", cores=8)) is None

    def test_devices_are_given_once_and_of_the_right_model(self):
        seats = place(gang(ask(2, gpus=2, model="H100")), node("a", gpus=4), node("b", gpus=4, model="H100"))
        assert [seat.devices for seat in seats] == [("b-gpu0", "b-gpu1"), ("b-gpu2", "b-gpu3")]

    def test_excluded_nodes_are_not_used(self):
        assert nodes_of(place(gang(excluded=("a",)), node("a"), node("b"))) == ["n-b"]
        assert place(gang(excluded=("a", "n-b")), node("a"), node("b")) is None

    def test_only_ready_nodes_get_new_gangs(self):
        states = [NodeState.DRAINING, NodeState.QUARANTINED, NodeState.LOST]
        assert place(gang(), *(node(state.lower(), state=state) for state in states)) is None

    def test_a_pool_that_does_not_exist_has_no_room(self):
        assert place(gang(ask(pool="nowhere")), node("a")) is None

    @given(clusters, requests, st.integers(1, 12))
    def test_a_place_is_found_exactly_when_there_is_one(self, cluster, wanted, replicas):
        one = Gang("tj-a", 1, 5, 1, (RoleAsk("worker", replicas, "public", wanted),))
        possible = sum(empty_room(node).holds(wanted) for node in cluster if node.state is NodeState.READY)
        assert (fit(one, columns(cluster, POOLS)) is not None) == (possible >= replicas)


class TestSeveralRoles:
    def test_each_role_is_placed_in_its_own_pool(self):
        pools = (Pool("cpu", "main", node_names=frozenset({"a"})), Pool("gpu", "main", node_names=frozenset({"b"})))
        wanted = gang(ask(1, "ps", "cpu"), ask(2, "worker", "gpu", gpus=1))
        assert nodes_of(place(wanted, node("a"), node("b", gpus=2), pools=pools)) == ["n-a", "n-b", "n-b"]

    def test_one_role_that_does_not_fit_keeps_the_other_from_starting(self):
        assert place(gang(ask(1, "ps"), ask(1, "worker", gpus=1)), node("a")) is None

    def test_another_order_of_roles_is_tried_where_the_first_fails(self):
        # The small role, packed after the large one, would take the memory of the only node that fits the third.
        wanted = gang(ask(1, "a", cores=2, memory_gib=2), ask(1, "b", cores=1, memory_gib=3))
        assert place(wanted, node("x", cores=2, memory_gib=2), node("y", cores=2, memory_gib=3)) is not None

    def test_seats_come_in_the_order_in_which_roles_are_written(self):
        seats = place(gang(ask(1, "small"), ask(2, "large", cores=4)), node("a", cores=16))
        assert [(seat.role, seat.index) for seat in seats] == [("small", 0), ("large", 0), ("large", 1)]


@given(clusters, roles)
def test_what_is_placed_fits_in_the_rooms_that_there_are(cluster, wanted):
    free = columns(cluster, POOLS)
    seats, places = fitted(gang(*wanted), free), fit(gang(*wanted), free)
    if seats is None:
        return
    assert sorted({(s.role, s.index) for s in seats}) == sorted((r.name, i) for r in wanted for i in range(r.replicas))
    take(places, free)
    assert min(free.cpu_m.min(), free.memory_bytes.min()) >= 0
    taken = [(seat.node, device) for seat in seats for device in seat.devices]
    assert len(taken) == len(set(taken))
    assert all(len(seat.devices) == seat.request.gpus for seat in seats)


@given(clusters, roles, st.randoms(use_true_random=False))
def test_the_same_rooms_give_the_same_place_in_whatever_order_they_are_listed(cluster, wanted, shuffler: random.Random):
    mixed = list(cluster)
    shuffler.shuffle(mixed)
    otherwise = dict(sorted(POOLS.items(), key=lambda _: shuffler.random()))
    assert fitted(gang(*wanted), columns(cluster, POOLS)) == fitted(gang(*wanted), columns(mixed, otherwise))


def test_a_gang_of_ten_thousand_is_placed_on_as_many_nodes():
    many = [node(f"{number:05}", cores=8, gpus=8) for number in range(1250)]
    seats = fitted(gang(ask(10_000, gpus=1, cores=1)), columns(many))
    assert len({(seat.node, seat.devices) for seat in seats}) == 10_000


def test_request_is_what_each_seat_remembers():
    (seat,) = place(gang(ask(1, cores=2, memory_gib=4)), node("a"))
    assert seat.request == request(cores=2, memory_gib=4)
