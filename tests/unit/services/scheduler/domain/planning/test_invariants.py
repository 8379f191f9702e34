"""What holds after any sequence of submissions, cycles, ends, changes of nodes, evictions and crashes.

A crash forgets everything but what is on record (which gangs wait, which hold which seats) and builds the state anew.
The numbers are those under which these invariants are commonly listed: capacity (1), conservation and incremental
counts (2), all or nothing (3), devices (4), eligibility (6), hard topology (7), determinism (9), work conservation
(10), quotas (12), evictions (14), and that skipping shapes which failed skips nobody who would have fitted (25).
`services/scheduler/test_invariants_have_tests.py` says which tests hold all 25 of them.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from services.scheduler.domain.gang import Gang, Level, Preemption, RoleAsk, Topology
from services.scheduler.domain.nodes import SLOTS_MAX, Node, NodeState
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.fit import fit
from services.scheduler.domain.planning.plan import Plan, plan
from services.scheduler.domain.planning.state import State
from services.scheduler.domain.quotas import Quota, use_of
from tests.support.cluster import POOLS, gang, node, request
from tests.support.cluster_life import ClusterLife

QUOTA = Quota(replicas=12, gpus=6)
PREEMPTIVE = {name: replace(pool, preemption=Preemption(0)) for name, pool in POOLS.items()}
TREE = st.builds(
    lambda number, cores, gpus, leaf, team, slots: node(
        f"{number:02}",
        cores,
        32,
        gpus,
        labels={"leaf": leaf, "spine": "s"} | ({"team": "x"} if team else {}),
        slots=slots,
    ),
    st.integers(0, 20),
    st.integers(4, 12),
    st.integers(0, 4),
    st.sampled_from(["a", "a", "b", ""]),
    st.booleans(),
    st.sampled_from([SLOTS_MAX, SLOTS_MAX, 2]),
)
TREES = st.lists(TREE, min_size=3, max_size=8, unique_by=lambda made: made.id)
ASKS = st.builds(
    RoleAsk,
    name=st.sampled_from(["ps", "worker"]),
    replicas=st.integers(1, 5),
    pool=st.sampled_from(["public", "public", "public", "team"]),
    request=st.builds(request, cores=st.integers(1, 4), gpus=st.sampled_from([0, 0, 1, 2])),
)
ROLES = st.lists(ASKS, min_size=1, max_size=2, unique_by=lambda role: role.name).map(tuple)
TOPOLOGIES = st.sampled_from([Topology(), Topology(), Topology(Level.LEAF, hard=True), Topology(Level.SPINE)])


class Cluster(RuleBasedStateMachine):
    """Gangs come and go on a changing cluster."""

    def __init__(self):
        super().__init__()
        self.life = ClusterLife()
        self.wanted: dict[str, Gang] = {}
        self.before: list[Node] = []

    @initialize(cluster=TREES)
    def begin(self, cluster):
        self.life = ClusterLife(cluster, tuple(PREEMPTIVE.values()))
        self.life.state.quotas = {"limited": QUOTA}

    # --- what happens

    @rule(
        wanted=ROLES,
        copies=st.integers(1, 3),
        priority=st.integers(1, 9),
        project=st.sampled_from(["limited", "free"]),
        may_be_stopped=st.booleans(),
        longest_s=st.sampled_from([None, 600.0, 7200.0]),
        topology=TOPOLOGIES,
    )
    def submit(self, wanted, copies, priority, project, may_be_stopped, longest_s, topology):
        for _ in range(copies):
            job = f"tj-{'spot' if may_be_stopped else 'kept'}-{len(self.life.gangs)}"
            one = replace(gang(*wanted, job=job, priority=priority), project=project)
            self.life.submit(replace(one, longest_s=longest_s, topology=topology))

    @rule(minutes=st.sampled_from([1, 11, 90]), choice=st.randoms(use_true_random=False))
    def look(self, minutes, choice):
        self.life.now += timedelta(minutes=minutes)
        snapshot = self.life.state.snapshot()
        expected = plan(self.shuffled(choice).snapshot(), self.life.now)
        assert told(expected) == told(plan(snapshot, self.life.now))
        frozen = snapshot.frozen()
        self.check(snapshot.columns.copy(), self.life.cycle())
        assert told(expected) == told(plan(frozen, self.life.now))

    @rule(choice=st.randoms(use_true_random=False))
    def confirm_an_end(self, choice):
        if self.life.running:
            self.life.end(choice.choice(sorted(self.life.running)))
            self.look(1, choice)

    @rule(state=st.sampled_from([*NodeState, None]), choice=st.randoms(use_true_random=False))
    def change_a_node(self, state, choice):
        nodes = dict(self.life.state.ledger.nodes)
        if nodes:
            chosen = nodes.pop(choice.choice(sorted(nodes)))
            kept = [replace(chosen, state=state)] if state is not None else []
            self.before += [] if kept else [chosen]
            self.life.state.ledger.set_nodes([*nodes.values(), *kept])

    @rule()
    def lost_nodes_come_back(self):
        self.life.state.ledger.set_nodes([*self.life.state.ledger.nodes.values(), *self.before])
        self.before = []

    @rule()
    def crash(self):
        self.life.state = self.rebuilt(list(self.life.state.ledger.nodes.values()), list(self.life.state.queue))

    def rebuilt(self, nodes, waiting) -> State:
        old = self.life.state
        anew = State(nodes, PREEMPTIVE)
        anew.quotas = old.quotas
        for each in waiting:
            anew.wait(each)
        for name, running in old.running.items():
            anew.hold(running, old.ledger.held[name])
        return anew

    def shuffled(self, choice: random.Random) -> State:
        """The same state, everything told in another order."""
        nodes, waiting = list(self.life.state.ledger.nodes.values()), list(self.life.state.queue)
        choice.shuffle(nodes)
        choice.shuffle(waiting)
        return self.rebuilt(nodes, waiting)

    # --- what a plan may do

    def check(self, free: Columns, decided: Plan) -> None:
        for start in decided.starts:
            assert Counter(seat.role for seat in start.seats) == {role.name: role.replicas for role in start.gang.roles}
            self.check_places(start, free)
            for place in start.places:
                free.take(
                    place.role.request, np.array(place.rows), np.array(place.counts), np.array(place.devices, np.uint64)
                )
            assert lowest(free) >= min(0, self.overcommitted())
        for eviction in decided.evictions:
            assert eviction.victim.priority < eviction.by.priority
            assert eviction.victim.preemptible
        self.check_nobody_was_passed_over(free, decided)

    def check_places(self, start, free: Columns) -> None:
        layout = free.layout
        for place in start.places:
            for row in place.rows:
                assert layout.nodes[row].state is NodeState.READY
                assert PREEMPTIVE[place.role.pool].has(layout.nodes[row])
        rows = {row for place in start.places for row in place.rows}
        leaves = {layout.nodes[row].labels["leaf"] for row in rows}
        assert not start.gang.topology.hard or len(rows) == 1 or (len(leaves) == 1 and "" not in leaves)

    def check_nobody_was_passed_over(self, free: Columns, decided: Plan) -> None:
        """Where no place is kept and nobody blocks, whoever still waits does not fit."""
        if decided.reservations or decided.evictions:
            return
        for one in self.life.state.queue:
            within = one.project == "free"
            if within and len(one.roles) == 1 and one.pools == ("public",):
                assert fit(one, free) is None

    def overcommitted(self) -> int:
        return lowest(self.life.state.ledger.columns)

    # --- what always holds

    @invariant()
    def free_is_capacity_less_what_is_held(self):
        state = self.life.state
        anew = self.rebuilt(list(state.ledger.nodes.values()), [])
        for column in ("cpu_m", "memory_bytes", "slots", "devices"):
            assert np.array_equal(getattr(state.ledger.columns, column), getattr(anew.ledger.columns, column))
        later, again = (each.snapshot().tenancy.after(each.ledger.columns) for each in (state, anew))
        assert np.array_equal(later.cpu_m, again.cpu_m)
        assert np.array_equal(later.slots, again.slots)
        assert np.array_equal(later.devices, again.devices)

    @invariant()
    def counts_are_those_of_a_rebuild(self):
        columns = self.life.state.ledger.columns
        anew = columns.part(0, len(columns))
        for one in self.life.gangs.values():
            for role in one.roles:
                count, fresh = columns.count(role.pool, role.request), anew.count(role.pool, role.request)
                assert np.array_equal(count.held, fresh.held)
                assert (count.total, count.most >= fresh.most) == (fresh.total, True)
                for level in Level:
                    assert np.array_equal(columns.sums(count, level), anew.sums(fresh, level))

    @invariant()
    def no_device_has_two_owners(self):
        held = self.life.state.ledger.held.values()
        owners = Counter((seat.node, device) for seats in held for seat in seats for device in seat.devices)
        assert all(count == 1 for count in owners.values())

    @invariant()
    def no_project_holds_more_than_its_quota(self):
        running = [each for each in self.life.state.running.values() if each.project == "limited"]
        used = [use_of(each.roles) for each in running]
        assert sum(use.replicas for use in used) <= QUOTA.replicas
        assert sum(use.gpus for use in used) <= QUOTA.gpus

    @invariant()
    def whoever_holds_a_place_waits_for_none(self):
        assert not self.life.running & {each.job for each in self.life.state.queue}


def lowest(columns: Columns) -> int:
    """The least that any node has free of anything."""
    return int(min(column.min(initial=0) for column in (columns.cpu_m, columns.memory_bytes, columns.slots)))


def told(decided: Plan) -> object:
    """A plan by ids, so that plans over differently built states compare."""
    return (
        [(start.gang.job, start.seats) for start in decided.starts],
        [(eviction.victim.job, eviction.by.job) for eviction in decided.evictions],
        [
            (kept.gang.job, kept.at, [(place.rows, place.counts) for place in kept.places])
            for kept in decided.reservations
        ],
    )


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=40, stateful_step_count=30)
