"""Nothing is held twice, nothing is free that somebody holds."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from services.scheduler.domain.ledger import Ledger, Seat
from services.scheduler.domain.nodes import NodeState
from tests.support.cluster import POOLS, clusters, gang, node, planned, request, roles


def test_a_gang_holds_its_seats_until_it_is_released():
    ledger = Ledger([node("a", cores=8)])
    ledger.hold("g", [Seat("worker", 0, "n-a", request(cores=3))])
    assert ledger.rooms["n-a"].cpu_m == 5000
    ledger.release("g")
    assert ledger.rooms["n-a"].cpu_m == 8000


def test_holding_and_releasing_twice_changes_nothing():
    ledger = Ledger([node("a", cores=8)])
    for _ in range(2):
        ledger.hold("g", [Seat("worker", 0, "n-a", request(cores=3))])
    assert ledger.rooms["n-a"].cpu_m == 5000
    for _ in range(2):
        ledger.release("g")
    assert ledger.rooms["n-a"].cpu_m == 8000


def test_a_node_that_shrinks_under_its_gang_has_no_room():
    ledger = Ledger([node("a", cores=8)])
    ledger.hold("g", [Seat("worker", 0, "n-a", request(cores=6))])
    ledger.set_nodes([node("a", cores=4)])
    assert ledger.rooms["n-a"].holds(request(cores=1)) == 0


def test_a_node_that_comes_back_has_its_gangs_still_on_it():
    ledger = Ledger([node("a", cores=8, gpus=2)])
    ledger.hold("g", [Seat("worker", 0, "n-a", request(cores=6, gpus=1), ("a-gpu0",))])
    ledger.set_nodes([])
    assert ledger.rooms == {}
    ledger.set_nodes([node("a", cores=8, gpus=2)])
    room = ledger.rooms["n-a"]
    assert (room.cpu_m, [device.id for device in room.devices]) == (2000, ["a-gpu1"])


class LedgerMachine(RuleBasedStateMachine):
    """Gangs come and go on a changing cluster, placed by the planner; a crash rebuilds the ledger from what is held."""

    def __init__(self):
        super().__init__()
        self.ledger = Ledger()
        self.asked = {}
        self.number = 0

    @initialize(cluster=clusters)
    def start(self, cluster):
        self.ledger = Ledger(cluster, POOLS)

    @rule(asked=st.lists(roles, min_size=1, max_size=4), priorities=st.lists(st.integers(1, 9), min_size=4, max_size=4))
    def submit(self, asked, priorities):
        waiting = []
        for wanted, priority in zip(asked, priorities, strict=False):
            self.number += 1
            waiting.append(gang(*wanted, job=f"tj-{self.number}", priority=priority, sequence=self.number))
        for start in planned(waiting, self.ledger.columns).starts:
            assert Counter(seat.role for seat in start.seats) == {r.name: r.replicas for r in start.gang.roles}
            self.ledger.hold(start.gang.job, start.seats)
            self.asked[start.gang.job] = start.gang

    @rule(choice=st.randoms(use_true_random=False))
    def confirm_an_end(self, choice):
        if self.ledger.held:
            self.ledger.release(choice.choice(sorted(self.ledger.held)))

    @rule(state=st.sampled_from(list(NodeState)), choice=st.randoms(use_true_random=False))
    def change_the_state_of_a_node(self, state, choice):
        nodes = dict(self.ledger.nodes)
        if nodes:
            changed = nodes[choice.choice(sorted(nodes))]
            more = {"id": changed.id, "labels": changed.labels, "state": state}
            nodes[changed.id] = node(
                changed.name,
                changed.cpu_m // 1000,
                changed.memory_bytes >> 30,
                len(changed.devices),
                changed.devices[0].model if changed.devices else "A100",
                **more,
            )
            self.ledger.set_nodes(nodes.values())

    @rule()
    def crash(self):
        held = self.ledger.held
        self.ledger = Ledger(self.ledger.nodes.values(), POOLS)
        for name, seats in held.items():
            self.ledger.hold(name, seats)

    @invariant()
    def no_node_is_over_committed(self):
        for room in self.ledger.rooms.values():
            assert room.cpu_m >= 0
            assert room.memory_bytes >= 0

    @invariant()
    def free_is_capacity_less_what_is_held(self):
        seats = [seat for held in self.ledger.held.values() for seat in held]
        for node_id, room in self.ledger.rooms.items():
            here = [seat for seat in seats if seat.node == node_id]
            assert room.cpu_m == room.node.cpu_m - sum(seat.request.cpu_m for seat in here)
            assert room.memory_bytes == room.node.memory_bytes - sum(seat.request.memory_bytes for seat in here)
            assert len(room.devices) == len(room.node.devices) - sum(seat.request.gpus for seat in here)

    @invariant()
    def no_device_has_two_owners(self):
        owners = Counter(
            (seat.node, device) for held in self.ledger.held.values() for seat in held for device in seat.devices
        )
        assert all(count == 1 for count in owners.values())

    @invariant()
    def every_gang_is_whole_and_in_its_pools(self):
        for name, seats in self.ledger.held.items():
            asked = {role.name: role for role in self.asked[name].roles}
            assert Counter(seat.role for seat in seats) == {role.name: role.replicas for role in asked.values()}
            for seat in seats:
                assert POOLS[asked[seat.role].pool].has(self.ledger.nodes[seat.node])
                assert len(seat.devices) == seat.request.gpus


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=30)
