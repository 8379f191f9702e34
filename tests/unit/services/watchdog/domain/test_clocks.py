"""Times of nodes whose clocks are wrong come right."""

from __future__ import annotations

from services.watchdog.domain.clocks import WINDOW_MS, Clocks


def test_a_clock_that_is_slow_is_corrected_by_the_quickest_chunk() -> None:
    clocks = Clocks()
    for node_ms, arrived_ms in ((1000, 11_400), (2000, 12_050), (3000, 13_900)):
        clocks.note("n-1", node_ms, arrived_ms)
    assert clocks.corrected_ms("n-1", 5000) == 15_050


def test_a_clock_that_is_fast_is_corrected_too() -> None:
    clocks = Clocks()
    clocks.note("n-1", 60_000, 1_020)
    assert clocks.corrected_ms("n-1", 60_000) == 1_020


def test_of_a_node_that_was_never_heard_the_time_is_taken_as_it_is() -> None:
    assert Clocks().corrected_ms("n-1", 7) == 7


def test_a_clock_that_was_set_is_believed_after_a_while() -> None:
    clocks = Clocks()
    clocks.note("n-1", 0, 50)
    for minute in range(3):
        at = (minute + 1) * (WINDOW_MS + 1)
        clocks.note("n-1", at - 9_000, at + 50)
    assert clocks.corrected_ms("n-1", 0) == 9_050
