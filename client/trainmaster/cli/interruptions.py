"""Tells the user when a followed stream loses the platform, and when it is back."""

from __future__ import annotations

from trainmaster.cli.screen import Screen
from trainmaster.sse import Interruption


class InterruptionTeller:
    """Call it with each interruption of one or more streams; they are told as one."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._lost: set[str] = set()

    def __call__(self, interruption: Interruption, stream: str = "") -> None:
        """Say what this changes, if anything."""
        was_lost = bool(self._lost)
        if interruption.error is None:
            self._lost.discard(stream)
            if was_lost and not self._lost:
                self._screen.say("connected again", style="dim")
        else:
            self._lost.add(stream)
            if not was_lost:
                self._screen.say("connection lost, trying again", style="dim yellow")
