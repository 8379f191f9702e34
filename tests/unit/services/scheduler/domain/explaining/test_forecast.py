"""When a gang starts if those that run take as long as they may."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from services.scheduler.domain.explaining.forecast import GANGS_MAX, expected_start
from services.scheduler.domain.explaining.holders import held_in
from services.scheduler.domain.explaining.trials import Trials
from services.scheduler.domain.gang import Gang, QueuePolicy
from services.scheduler.domain.ledger import Ledger, Seat
from services.scheduler.domain.planning.running import Running
from services.scheduler.domain.planning.state import State
from tests.support.cluster import NOW, PUBLIC, ask, gang, node, request

HOUR = timedelta(hours=1)


def state(*running: tuple[str, int, float | None], cores: int = 8, waiting: tuple[Gang, ...] = ()) -> State:
    """One node on which jobs hold some cores until some hour, in a fifo pool."""
    made = State(
        [node("a", cores=cores, memory_gib=max(32, cores))], {"public": replace(PUBLIC, policy=QueuePolicy.FIFO)}
    )
    for job, held, hours in running:
        ends_by = None if hours is None else NOW + hours * HOUR
        runs = Running(f"{job}-1", job, 5, "", "u-bob", (ask(held),), NOW - HOUR, ends_by)
        made.hold(runs, tuple(Seat("worker", index, "n-a", request()) for index in range(held)))
    for wanted in waiting:
        made.wait(wanted)
    return made


def expected(made: State, job: str = "mine"):
    return expected_start(job, Trials(made.snapshot(), NOW))


def test_it_starts_with_the_end_that_makes_enough_room():
    mine = gang(ask(6), job="mine")
    assert expected(state(("x", 3, 1), ("y", 3, 2), ("z", 2, 3), waiting=(mine,))) == NOW + 2 * HOUR


def test_those_before_it_go_first_and_hold_what_they_get_as_long_as_they_may():
    first = replace(gang(ask(8), job="first", sequence=1), longest_s=3600.0)
    mine = gang(ask(8), job="mine", sequence=2)
    assert expected(state(("x", 8, 1), waiting=(first, mine))) == NOW + 2 * HOUR


def test_nothing_is_promised_where_somebody_may_run_for_ever():
    mine = gang(ask(6), job="mine")
    assert expected(state(("x", 3, None), ("y", 3, 2), waiting=(mine,))) is None
    endless = gang(ask(8), job="first", sequence=0)
    assert expected(state(("x", 8, 1), waiting=(endless, mine))) is None


def test_an_end_that_is_overdue_counts_as_one_that_comes_now():
    assert expected(state(("x", 8, -1), waiting=(gang(ask(6), job="mine"),))) == NOW


def test_of_many_ends_those_far_away_count_together_and_the_promise_is_a_little_later():
    running = [(f"x{number}", 1, 1 + number) for number in range(500)]
    at_once = expected(state(*running, cores=500, waiting=(gang(ask(10), job="mine"),)))
    far = expected(state(*running, cores=500, waiting=(gang(ask(300), job="mine"),)))
    assert at_once == NOW + 10 * HOUR
    assert far is not None
    assert NOW + 300 * HOUR <= far <= NOW + 400 * HOUR


def test_only_those_that_are_first_in_the_queue_are_told():
    others = tuple(gang(ask(pool="team"), job=f"x{number}", priority=9) for number in range(GANGS_MAX))
    mine = gang(job="mine")
    assert expected(state(waiting=(*others[1:], mine))) == NOW
    assert expected(state(waiting=(*others, mine))) is None


def test_the_snapshot_is_as_it_was():
    made = state(("x", 8, 1), waiting=(gang(ask(6), job="mine"),))
    before = made.ledger.columns.cpu_m.copy()
    expected(made)
    assert (made.ledger.columns.cpu_m == before).all()
    assert list(made.running) == ["x-1"]
    assert len(made.queue) == 1


def test_holders_are_named_where_the_asker_may_know_them_those_with_the_most_first():
    made = state(("x", 1, 1), ("y", 3, None), ("secret", 2, None))
    held = held_in(made.snapshot(), "public", "cpu", lambda job: job != "secret")
    assert [(holder.job, holder.amount) for holder in held.holders] == [("y", 3000), ("x", 1000)]
    assert held.others == 2000
    assert held.holders[1].ends_by == NOW + HOUR


def test_only_what_is_held_in_the_pool_counts():
    ledger = Ledger([node("a")], {"public": PUBLIC})
    assert held_in(state(("x", 1, 1)).snapshot(), "moon", "memory", lambda _job: True).holders == ()
    assert ledger.columns.layout.members("moon").sum() == 0
