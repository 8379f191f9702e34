from __future__ import annotations

import pytest

from services.watchdog.domain.waiting import CLOSED_WAIT_S, END_MARK_WAIT_S, Patience


def after(*looks: bool, seconds: float = 1.0) -> Patience:
    patience = Patience()
    for is_open in looks:
        patience = patience.after(seconds, is_open=is_open)
    return patience


def test_patience_is_over_after_ten_seconds_of_an_open_way() -> None:
    assert not after(*[True] * 9).is_over
    assert after(*[True] * int(END_MARK_WAIT_S)).is_over


@pytest.mark.parametrize("before", [1, 9])
def test_ten_seconds_begin_anew_when_the_way_opens_again(before: int) -> None:
    interrupted = after(*[True] * before, False, *[True] * 9)
    assert not interrupted.is_over
    assert interrupted.after(1, is_open=True).is_over


def test_a_way_that_does_not_open_is_given_up_after_a_minute_in_all() -> None:
    flapping = after(*[False, True] * 59)
    assert not flapping.is_over
    assert flapping.after(CLOSED_WAIT_S - 59, is_open=False).is_over
