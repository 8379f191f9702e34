"""Wishes to look at jobs again come true once, in time, and as last expressed."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.control.alarms import Alarms
from tests.support.jobs import START

wishes = st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 20)))


def at(seconds: float):
    return START + timedelta(seconds=seconds)


def test_without_wishes_there_is_nothing_next():
    assert Alarms().next() is None
    assert Alarms().due(at(5)) == set()


def test_the_latest_wish_counts():
    alarms = Alarms()
    alarms.wish("a", at(1))
    alarms.wish("a", at(9))
    assert alarms.next() == at(9)
    assert alarms.due(at(5)) == set()
    alarms.wish("a", None)
    assert alarms.due(at(10)) == set()


def test_each_wish_comes_true_once():
    alarms = Alarms()
    alarms.wish("a", at(1))
    assert alarms.due(at(1)) == {"a"}
    assert alarms.due(at(1)) == set()


@given(wishes, st.integers(0, 20))
def test_what_is_due_is_what_was_last_wished_for_until_now(expressed, now):
    alarms, last = Alarms(), {}
    for job, seconds in expressed:
        last[job] = seconds
        alarms.wish(job, None if seconds is None else at(seconds))
    due = {job for job, seconds in last.items() if seconds is not None and seconds <= now}
    assert alarms.due(at(now)) == due
    later = [seconds for job, seconds in last.items() if seconds is not None and job not in due]
    assert alarms.next() == (at(min(later)) if later else None)
