"""Signals in words."""

from __future__ import annotations

import signal


def signal_words(number: int) -> str:
    """The number, and the name where the signal has one: `signal 9 (SIGKILL)`."""
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
