"""Replica time and amounts by window: what is read when, and that windows come to the total."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.domain.metering import SETTLE, WINDOW, Spell, Used, next_tick, readings, to_ms, totals
from shared.events import EndReason, PlacementChanged, RolePlacement, UsagePhase
from tests.support.jobs import START, role
from tests.support.metering import JOB, PRICE, Told, at

MINUTE = 60_000


def read(told: Told, minutes: float) -> dict[str, Used]:
    prefix = f"{JOB}/1/worker/"
    return {one.id.removeprefix(prefix): one.used for one in readings(told.job, told.job.attempt, at(minutes))}


def test_a_window_of_a_live_attempt_is_read_once_it_has_closed_and_settled():
    told = Told().place().run()
    assert read(told, 10) == {}
    assert read(told, 10 + SETTLE / timedelta(minutes=1)) == {
        "2026-01-01T00:00:00Z": Used(2 * 10 * MINUTE, 2 * 10 * PRICE // 60)
    }


def test_the_end_of_an_attempt_cuts_its_last_window_short():
    told = Told(replicas=1).place().run(1).exit(0, 12.5).end(12.5)
    used = read(told, 12.5)
    assert {id_: one.replica_ms for id_, one in used.items() if not id_.endswith("starting")} == {
        "2026-01-01T00:00:00Z": 9 * MINUTE,
        "2026-01-01T00:10:00Z": 2.5 * MINUTE,
    }
    (last,) = (one for one in readings(told.job, told.job.attempt, at(60)) if one.start_ms == to_ms(at(10)))
    assert last.end_ms == to_ms(at(12.5))


def test_each_replica_is_billed_to_its_own_end():
    told = Told().place().run().exit(0, 3).exit(1, 7).end(7)
    assert read(told, 7)["2026-01-01T00:00:00Z"].replica_ms == 10 * MINUTE


def test_a_replica_that_ended_before_all_of_them_ran_is_not_billed():
    told = Told().place().exit(0, 1).run(2).exit(1, 5).end(5)
    assert read(told, 5)["2026-01-01T00:00:00Z"].replica_ms == 3 * MINUTE


def test_what_comes_before_running_is_recorded_and_costs_nothing():
    told = Told(replicas=1).place(diagnosing=True)
    told.tell(2, _admitted()).run(3).exit(0, 5).end(5)
    assert read(told, 5) == {
        "2026-01-01T00:00:00Z/diagnosing": Used(2 * MINUTE, 0),
        "2026-01-01T00:00:00Z/starting": Used(1 * MINUTE, 0),
        "2026-01-01T00:00:00Z": Used(2 * MINUTE, 2 * PRICE // 60),
    }


def test_a_replacement_of_nodes_is_part_of_the_diagnosis_and_costs_nothing():
    told = Told(replicas=1).place(diagnosing=True)
    role = RolePlacement(role="worker", pool="p-public", nodes=("n-9",), node_of=(0,))
    told.tell(1, PlacementChanged(roles=(role,), left=("n-1",), taken=("n-9",), round=2))
    told.tell(2, _admitted()).run(3).exit(0, 5).end(5)
    assert read(told, 5)["2026-01-01T00:00:00Z/diagnosing"] == Used(2 * MINUTE, 0)
    assert read(told, 5)["2026-01-01T00:00:00Z"] == Used(2 * MINUTE, 2 * PRICE // 60)


def _admitted():
    from shared.events import Admitted

    return Admitted()


def test_an_attempt_that_was_never_placed_used_nothing():
    assert read(Told(), 60) == {}


def test_an_attempt_that_never_ran_held_its_place_until_its_end():
    told = Told(replicas=1).place(1).end(4, EndReason.START_TIMEOUT)
    assert read(told, 4) == {"2026-01-01T00:00:00Z/starting": Used(3 * MINUTE, 0)}


def test_a_dedicated_pool_has_no_price_and_is_not_billed():
    told = Told(replicas=1, price=None).place().run().exit(0, 5).end(5)
    (one,) = readings(told.job, told.job.attempt, at(5))
    assert (one.used, one.spell.billable) == (Used(5 * MINUTE, 0), False)


def test_an_attempt_lost_to_the_platform_costs_nothing():
    told = Told().place().run().end(5, EndReason.PLATFORM)
    assert totals(told.job, told.job.attempt, at(5))["worker", UsagePhase.RUNNING] == Used()


def test_a_clock_that_was_set_back_makes_nothing_negative():
    told = Told().place(10).run(10).exit(0, 2).exit(1, 3).end(3)
    assert read(told, 3) == {}
    assert set(totals(told.job, told.job.attempt, at(3)).values()) == {Used()}


@given(st.integers(0, 10**9))
def test_the_next_tick_is_after_now_and_at_most_a_window_away(seconds: int):
    now = START + timedelta(seconds=seconds)
    tick = next_tick(now)
    assert now < tick <= now + WINDOW
    assert (tick - SETTLE - START) % WINDOW == timedelta()


@given(
    st.lists(st.integers(0, 5_000_000), min_size=1, max_size=20),
    st.integers(0, 3),
    st.integers(0, 10**7),
    st.lists(st.integers(0, 6_000_000), max_size=8),
)
def test_however_time_is_cut_the_parts_come_to_the_whole(ends: list[int], staying: int, price: int, cuts: list[int]):
    spell = Spell(role(price_micros_per_hour=price), UsagePhase.RUNNING, 0, tuple(sorted(ends)), staying)
    points = [0, *sorted(cuts), 6_000_000]
    parts = [spell.used(after) - spell.used(before) for before, after in pairwise(points)]
    assert sum(parts, Used()) == spell.used(6_000_000)
    assert all(part.replica_ms >= 0 and part.amount_micros >= 0 for part in parts)
    replica_ms = sum(ends) + staying * 6_000_000
    assert spell.used(6_000_000) == Used(replica_ms, replica_ms * price // 3_600_000)
