"""Who starts in one cycle, and who waits for whom."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.domain.gang import QueuePolicy
from services.scheduler.domain.planning.fit import fit
from tests.support.cluster import POOLS, PUBLIC, after, ask, clusters, columns, gang, node, planned, roles

gang_lists = st.lists(st.tuples(roles, st.integers(1, 9)), max_size=6).map(
    lambda asked: tuple(
        gang(*wanted, job=f"tj-{number}", priority=priority, sequence=number)
        for number, (wanted, priority) in enumerate(asked)
    )
)


def started(*gangs, nodes=(), pool=PUBLIC) -> list[str]:
    return [start.gang.job for start in planned(gangs, columns(nodes, (pool,))).starts]


def test_a_later_gang_sees_only_what_the_earlier_left():
    first, second = gang(ask(1, cores=6), job="first"), gang(ask(1, cores=6), job="second", sequence=2)
    assert started(second, first, nodes=[node("a", cores=8)]) == ["first"]


def test_a_gang_that_fits_may_pass_one_that_does_not():
    large, small = gang(ask(1, cores=99), job="large"), gang(ask(1), job="small", sequence=2)
    assert started(large, small, nodes=[node("a")]) == ["small"]


def test_in_a_fifo_pool_the_head_blocks_those_behind_it():
    fifo = replace(PUBLIC, policy=QueuePolicy.FIFO)
    large, small = gang(ask(1, cores=99), job="large"), gang(ask(1), job="small", sequence=2)
    assert started(large, small, nodes=[node("a")], pool=fifo) == []


def test_gangs_of_one_shape_after_a_failed_one_still_start_when_they_fit():
    gangs = [gang(ask(3, cores=3), job=str(number), sequence=number) for number in range(4)]
    assert started(*gangs, nodes=[node("a", cores=9), node("b", cores=9)]) == ["0", "1"]


def test_nothing_waits_gives_an_empty_plan():
    assert started(nodes=[node("a")]) == []


@given(clusters, gang_lists)
def test_started_gangs_are_whole_and_fit_together(cluster, gangs):
    free = columns(cluster, POOLS)
    for start in planned(gangs, free).starts:
        assert len(start.seats) == sum(role.replicas for role in start.gang.roles)
        free = after(start, free)
        assert min(free.cpu_m.min(initial=0), free.memory_bytes.min(initial=0)) >= 0


@given(clusters, gang_lists)
def test_nobody_who_would_still_fit_is_left_waiting_in_a_backfill_pool(cluster, gangs):
    free = columns(cluster, {name: replace(pool, policy=QueuePolicy.BACKFILL) for name, pool in POOLS.items()})
    starts = planned(gangs, free).starts
    for start in starts:
        free = after(start, free)
    placed = {start.gang.job for start in starts}
    single = [one for one in gangs if one.job not in placed and len(one.roles) == 1]
    assert all(fit(one, free) is None for one in single)


@given(clusters, gang_lists, st.randoms(use_true_random=False))
def test_the_same_snapshot_gives_the_same_plan_in_whatever_order_it_is_listed(cluster, gangs, shuffler: random.Random):
    mixed_gangs = tuple(shuffler.sample(gangs, len(gangs)))
    mixed_nodes = shuffler.sample(cluster, len(cluster))
    once = planned(gangs, columns(cluster, POOLS)).starts
    again = planned(mixed_gangs, columns(mixed_nodes, dict(reversed(POOLS.items())))).starts
    assert [(start.gang, start.seats) for start in once] == [(start.gang, start.seats) for start in again]
