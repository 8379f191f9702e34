"""Which gangs are being made, and who is told of it."""

from __future__ import annotations

import pytest

from services.scheduler.engines.kubernetes.making import Making
from shared.ids import GangId

GANG, OTHER = GangId("tj-a-1"), GangId("tj-b-1")


def test_a_large_gang_is_being_made_until_it_is_made_or_that_fails():
    making = Making(large=10)
    with making.of(GANG, 10):
        assert making.gangs == {GANG}
    with pytest.raises(RuntimeError), making.of(GANG, 10):
        raise RuntimeError
    assert not making.gangs


def test_a_gang_that_is_made_beside_another_one_is_watched():
    making = Making(large=10)
    with making.of(GANG, 10):
        with making.of(OTHER, 11):
            assert making.gangs == {GANG}
        assert making.gangs == {GANG}
    with making.of(OTHER, 11):
        assert making.gangs == {OTHER}


def test_a_small_gang_is_nobodys_news():
    making, told = Making(large=10), []
    making.listen(lambda: told.append(making.gangs))
    with making.of(GANG, 9):
        assert not making.gangs
    assert not told


def test_listeners_are_told_of_each_change_until_they_leave():
    making, told = Making(large=10), []
    leave = making.listen(lambda: told.append(making.gangs))
    with making.of(GANG, 10):
        assert told == [{GANG}]
    leave()
    with making.of(OTHER, 10):
        assert told == [{GANG}, set()]
