"""Times of nodes whose clocks are wrong come right."""

from __future__ import annotations

from services.watchdog.domain.clocks import TRUSTED_CHUNKS, WINDOW_MS, Clocks


def test_a_clock_that_is_slow_is_corrected_by_the_quickest_chunk() -> None:
    clocks = Clocks()
    for node_ms, arrived_ms in ((1000, 11_400), (2000, 12_050), (3000, 13_900)) * TRUSTED_CHUNKS:
        clocks.note("n-1", node_ms, arrived_ms)
    assert clocks.corrected_ms("n-1", 5000) == 15_050


def test_a_clock_that_is_fast_is_corrected_too() -> None:
    clocks = Clocks()
    clocks.note("n-1", 60_000, 1_020)
    assert clocks.corrected_ms("n-1", 60_000) == 1_020


def test_of_a_node_of_which_little_is_heard_a_small_difference_is_the_way() -> None:
    clocks = Clocks()
    clocks.note("n-1", 1000, 7_000)
    assert clocks.corrected_ms("n-1", 1000) == 1000
    clocks.note("n-2", 1000, 3_600_000)
    assert clocks.corrected_ms("n-2", 1000) == 3_600_000


def test_of_a_node_that_was_never_heard_the_time_is_taken_as_it_is() -> None:
    assert Clocks().corrected_ms("n-1", 7) == 7


def test_a_clock_that_was_set_is_believed_after_a_while() -> None:
    clocks = Clocks()
    clocks.note("n-1", 0, 50)
    for window in range(1, 4):
        for chunk in range(TRUSTED_CHUNKS):
            at = window * (WINDOW_MS + 1) + chunk
            clocks.note("n-1", at - 9_000, at + 50)
    assert clocks.corrected_ms("n-1", 0) == 9_050
