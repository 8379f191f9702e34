"""A gang is placed whole or not at all."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.domain.gang import Gang, Level, Pool, RoleAsk, Topology
from services.scheduler.domain.nodes import NodeState, empty_room
from services.scheduler.domain.planning.fit import fit, fit_beside, take
from services.scheduler.domain.planning.plan import Start
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


def placed_in(number: int, spine: int, leaf: int, **more):
    """A node on a leaf of a spine."""
    return node(f"{number:02}", labels={"spine": f"s{spine}", "leaf": f"l{leaf}"}, **more)


def leaves_of(seats, cluster) -> set[tuple[str, str]]:
    labels = {each.id: (each.labels.get("spine", ""), each.labels.get("leaf", "")) for each in cluster}
    return {labels[seat.node] for seat in seats}


# Two spines of two leaves of three nodes of four cores.
TREE = [
    placed_in(spine * 6 + leaf * 3 + at, spine, leaf, cores=4) for spine in (0, 1) for leaf in (0, 1) for at in range(3)
]
HARD_LEAF, HARD_SPINE = Topology(Level.LEAF, hard=True), Topology(Level.SPINE, hard=True)


class TestTopology:
    def test_a_gang_goes_to_one_node_where_one_holds_it(self):
        seats = place(gang(ask(2, cores=2)), node("a", cores=3), node("b", cores=3), node("c", cores=4))
        assert nodes_of(seats) == ["n-c", "n-c"]

    def test_else_to_one_leaf_and_there_to_the_tightest(self):
        cluster = [*TREE, placed_in(20, 1, 2, cores=4), placed_in(21, 1, 2, cores=4)]
        assert leaves_of(place(gang(ask(2, cores=4)), *cluster), cluster) == {("s1", "l2")}

    def test_else_to_one_spine(self):
        cluster = [*TREE, placed_in(20, 1, 2, cores=4)]
        seats = place(gang(ask(6, cores=4)), *cluster)
        assert {spine for spine, _ in leaves_of(seats, cluster)} == {"s0"}

    def test_what_needs_several_leaves_takes_few_the_last_of_them_the_tightest(self):
        cluster = [*TREE, placed_in(20, 0, 2, cores=4), placed_in(21, 0, 3, cores=4), placed_in(22, 0, 3, cores=4)]
        seats = place(gang(ask(7, cores=4)), *cluster)
        assert leaves_of(seats, cluster) == {("s0", "l0"), ("s0", "l1"), ("s0", "l2")}

    def test_else_to_wherever_there_is_room(self):
        seats = place(gang(ask(11, cores=4)), *TREE)
        assert len(leaves_of(seats, TREE)) == 4

    def test_leaves_of_two_spines_may_have_the_same_name(self):
        cluster = [placed_in(1, 0, 0, cores=4), placed_in(2, 1, 0, cores=4)]
        assert place(replace(gang(ask(2, cores=4)), topology=HARD_LEAF), *cluster) is None

    def test_hard_stops_at_its_level(self):
        assert place(replace(gang(ask(3, cores=4)), topology=HARD_LEAF), *TREE) is not None
        assert place(replace(gang(ask(4, cores=4)), topology=HARD_LEAF), *TREE) is None
        assert place(replace(gang(ask(6, cores=4)), topology=HARD_SPINE), *TREE) is not None
        assert place(replace(gang(ask(7, cores=4)), topology=HARD_SPINE), *TREE) is None

    def test_hard_counts_only_domains_that_have_a_name(self):
        wanted = gang(ask(2, cores=4))
        assert place(replace(wanted, topology=HARD_LEAF), node("a", cores=4), node("b", cores=4)) is None
        assert place(wanted, node("a", cores=4), node("b", cores=4)) is not None

    def test_soft_at_the_spine_does_not_look_for_a_leaf(self):
        cluster = [placed_in(1, 0, 0, cores=9), placed_in(2, 0, 0, cores=9), placed_in(3, 0, 1, cores=4), *TREE[6:]]
        wanted = replace(gang(ask(4, cores=4)), topology=Topology(Level.SPINE))
        assert leaves_of(place(wanted, *cluster), cluster) == {("s0", "l0"), ("s0", "l1")}
        assert leaves_of(place(gang(ask(4, cores=4)), *cluster), cluster) == {("s0", "l0")}

    def test_all_roles_of_a_gang_stay_together(self):
        cluster = [
            *TREE,
            placed_in(20, 2, 0, cores=2, gpus=2),
            placed_in(21, 2, 0, cores=4),
            placed_in(22, 3, 0, cores=2, gpus=2),
        ]
        wanted = gang(ask(1, "ps", cores=4), ask(1, "worker", cores=2, gpus=2))
        assert leaves_of(place(wanted, *cluster), cluster) == {("s2", "l0")}

    def test_idle_nodes_are_kept_whole(self):
        free = columns([node("a", cores=4), node("b", cores=16)])
        take(fit(gang(ask(1, cores=10)), free), free)
        assert nodes_of(fitted(gang(ask(1, cores=2)), free)) == ["n-b"]


trees = st.lists(
    st.builds(
        placed_in,
        st.integers(0, 20),
        st.integers(0, 1),
        st.integers(0, 2),
        cores=st.integers(1, 8),
        gpus=st.integers(0, 4),
    ),
    max_size=8,
    unique_by=lambda made: made.id,
)


@given(trees, roles, st.sampled_from(Level))
def test_hard_gangs_are_in_one_named_domain(cluster, wanted, level):
    seats = fitted(replace(gang(*wanted), topology=Topology(level, hard=True)), columns(cluster, POOLS))
    domains = {pair if level is Level.LEAF else pair[0] for pair in leaves_of(seats or (), cluster)}
    assert len(domains) <= 1


@given(trees, requests, st.integers(1, 12))
def test_no_smaller_domain_would_have_held_a_gang_of_one_role(cluster, wanted, replicas):
    one = Gang("tj-a", 1, 5, 1, (RoleAsk("worker", replicas, "public", wanted),))
    seats = fitted(one, columns(cluster, POOLS))
    if seats is None:
        return
    held = {each.id: empty_room(each).holds(wanted) for each in cluster}
    by_leaf, by_spine = Counter(), Counter()
    for each in cluster:
        by_leaf[each.labels["spine"], each.labels["leaf"]] += held[each.id]
        by_spine[each.labels["spine"]] += held[each.id]
    used = leaves_of(seats, cluster)
    if len({seat.node for seat in seats}) > 1:
        assert max(held.values()) < replicas
    if len(used) > 1:
        assert max(by_leaf.values()) < replicas
    if len({spine for spine, _ in used}) > 1:
        assert max(by_spine.values()) < replicas


class TestBesideSurvivors:
    """What is missing of a gang is placed beside what is left of it. The platform itself starts whole gangs anew."""

    def rows(self, free, *names: str) -> list[int]:
        return [free.layout.row_of[f"n-{name}"] for name in names]

    def test_it_stays_on_their_leaf_though_another_is_tighter(self):
        cluster = [*TREE, placed_in(20, 1, 2, cores=4)]
        free = columns(cluster)
        places = fit_beside(gang(ask(1, cores=4)), self.rows(free, "00"), free)
        assert leaves_of(Start(gang(), places, free.layout).seats, cluster) == {("s0", "l0")}

    def test_else_on_their_spine(self):
        free = columns(TREE)
        places = fit_beside(gang(ask(4, cores=4)), self.rows(free, "00", "01"), free)
        assert {spine for spine, _ in leaves_of(Start(gang(), places, free.layout).seats, TREE)} == {"s0"}

    def test_a_hard_gang_does_not_leave_its_domain(self):
        free = columns(TREE)
        missing = replace(gang(ask(4, cores=4)), topology=HARD_LEAF)
        assert fit_beside(missing, self.rows(free, "00"), free) is None
        assert fit_beside(replace(missing, topology=HARD_SPINE), self.rows(free, "00"), free) is not None
        assert fit_beside(replace(missing, topology=Topology()), self.rows(free, "00", "11"), free) is not None
