"""Signals in words."""

from __future__ import annotations

from shared.signals import signal_words


def test_a_signal_is_told_by_number_and_name():
    assert signal_words(9) == "signal 9 (SIGKILL)"


def test_a_number_that_is_no_signal_is_told_as_it_is():
    assert signal_words(200) == "signal 200"
