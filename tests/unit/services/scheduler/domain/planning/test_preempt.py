"""Who is stopped for whom, and who is not."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from services.scheduler.domain.gang import Preemption
from services.scheduler.domain.planning.fit import fit
from services.scheduler.domain.planning.preempt import preempt
from tests.support.cluster import PUBLIC, ask, gang, node
from tests.support.cluster_life import ClusterLife

PROTECTED_S = 600.0
ALLOWING = replace(PUBLIC, preemption=Preemption(PROTECTED_S))
NODES = [node(name, cores=8, memory_gib=32) for name in "abc"]


def life_of(*running: tuple[str, int, int], pool=ALLOWING, age_s: float = PROTECTED_S) -> ClusterLife:
    """Three nodes of eight cores with gangs of (name, cores, priority), all started so long ago."""
    life = ClusterLife(NODES, (pool,))
    for name, cores, priority in running:
        life.submit(gang(ask(1, cores=cores), job=name, priority=priority))
    life.cycle()
    life.pass_time(age_s)
    return life


def urgent(cores: int = 8, replicas: int = 1, priority: int = 9):
    return gang(ask(replicas, cores=cores), job="tj-urgent", priority=priority)


FULL = (("tj-spot-a", 8, 3), ("tj-spot-b", 8, 4), ("tj-c", 8, 1))


class TestWhoIsStopped:
    def test_a_preemptible_gang_of_lower_priority_makes_room_and_waits_again(self):
        life = life_of(*FULL)
        life.submit(urgent())
        life.cycle()
        assert life.evicted == ["tj-spot-a"]
        life.pass_time(31)
        assert "tj-urgent" in life.running
        assert life.state.queue.get("tj-spot-a").attempt == 2

    def test_nobody_is_stopped_where_the_pool_does_not_allow_it(self):
        life = life_of(*FULL, pool=PUBLIC)
        life.submit(urgent())
        assert life.cycle().evictions == ()

    def test_nobody_is_stopped_for_the_same_priority(self):
        life = life_of(*FULL)
        life.submit(urgent(priority=3))
        assert life.cycle().evictions == ()

    def test_age_does_not_stop_anybody(self):
        life = life_of(*FULL)
        life.submit(urgent(priority=3))
        life.pass_time(9 * 3600)
        assert life.evicted == []

    def test_nobody_is_stopped_within_the_protected_time(self):
        life = life_of(*FULL, age_s=PROTECTED_S - 1)
        life.submit(urgent())
        assert life.cycle().evictions == ()
        life.pass_time(1)
        assert life.evicted == ["tj-spot-a"]

    def test_nobody_is_stopped_where_it_would_not_help(self):
        life = life_of(*FULL)
        life.submit(urgent(replicas=3))
        assert life.cycle().evictions == ()

    def test_nobody_is_stopped_where_there_is_room(self):
        life = life_of(("tj-spot-a", 8, 3))
        life.submit(urgent())
        assert life.cycle().evictions == ()
        assert "tj-urgent" in life.running

    def test_the_least_work_is_lost(self):
        life = life_of(("tj-spot-old", 8, 3), ("tj-x", 8, 5))
        life.submit(gang(ask(1, cores=8), job="tj-spot-young", priority=3))
        life.cycle()
        life.pass_time(PROTECTED_S)
        life.submit(urgent())
        life.cycle()
        assert life.evicted == ["tj-spot-young"]

    def test_one_whose_place_is_of_no_use_is_let_off(self):
        life = life_of(("tj-spot-a", 2, 1), ("tj-d", 6, 5), ("tj-spot-c", 8, 2), ("tj-e", 8, 5))
        life.submit(urgent())
        life.cycle()
        assert life.evicted == ["tj-spot-c"]


class TestMeanwhile:
    def test_no_more_are_stopped_while_those_have_yet_to_end(self):
        life = life_of(*FULL)
        life.submit(urgent())
        life.cycle()
        life.cycle()
        assert life.evicted == ["tj-spot-a"]

    def test_what_they_leave_is_kept_for_the_one_they_were_stopped_for(self):
        life = life_of(*FULL)
        life.submit(urgent())
        life.submit(gang(ask(1, cores=8), job="tj-later", priority=2))
        life.cycle()
        assert [kept.gang.job for kept in life.last.reservations] == ["tj-urgent"]
        life.pass_time(31)
        assert "tj-urgent" in life.running

    def test_the_one_that_was_stopped_does_not_stop_the_other_in_turn(self):
        life = life_of(*FULL)
        life.submit(urgent())
        for _ in range(30):
            life.pass_time(600)
        assert life.evicted == ["tj-spot-a"]
        assert "tj-urgent" in life.running


victims = st.lists(st.tuples(st.integers(1, 8), st.integers(1, 9), st.booleans()), max_size=10)


@settings(max_examples=40)
@given(victims, st.integers(1, 8), st.integers(1, 3), st.integers(1, 9))
def test_evictions_are_of_lower_priority_make_it_fit_and_are_all_needed(asked, cores, replicas, priority):
    life = life_of(*((f"tj-{'spot-' * may}{n}", cores, own) for n, (cores, own, may) in enumerate(asked)))
    one, state = urgent(cores, replicas, priority), life.state
    held = [(running, state.ledger.holding(name)) for name, running in state.running.items()]
    chosen = preempt(one, state.ledger.columns, held, state.ledger.columns.layout.pools, life.now)
    names = [eviction.victim.job for eviction in chosen]
    assert all(eviction.victim.priority < priority and eviction.victim.preemptible for eviction in chosen)
    if fit(one, state.ledger.columns) is not None:
        assert not names
        return
    for name in names:
        state.release(name)
    assert (fit(one, state.ledger.columns) is not None) == bool(names)
    for name in names:
        again = life_of(*((f"tj-{'spot-' * may}{n}", cores, own) for n, (cores, own, may) in enumerate(asked)))
        for other in set(names) - {name}:
            again.state.release(other)
        assert fit(one, again.state.ledger.columns) is None
