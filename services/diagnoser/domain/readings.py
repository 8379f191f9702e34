"""What the look at a node has measured, and how its clock stands to ours. Pure.

Four instants tell of the clock, as in NTP: when we asked, when the agent heard it, when it answered, and when we had
the answer. The measurement itself lies between the second and the third, so however long it takes it tells nothing. The
node's clock is off by the difference of the two middles; the way there may have been all of what both ways took, or
nothing of it, so by half of that it may be wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shared.agent_wire import Measurement

_MILLI: Final = 1000


@dataclass(frozen=True, slots=True)
class Reading:
    """A measurement, and between which instants of our clock it was made."""

    measurement: Measurement
    asked_unix_ms: int
    answered_unix_ms: int

    @property
    def clock_skew_s(self) -> float:
        """By how much the node's clock is ahead of ours; negative where it is behind."""
        theirs = self._heard_unix_ms + self._sent_unix_ms
        return (theirs - self.asked_unix_ms - self.answered_unix_ms) / 2 / _MILLI

    @property
    def clock_known_to_s(self) -> float:
        """By how much that may be wrong at most."""
        ways_ms = self.answered_unix_ms - self.asked_unix_ms - (self._sent_unix_ms - self._heard_unix_ms)
        return max(ways_ms, 0) / 2 / _MILLI

    @property
    def _heard_unix_ms(self) -> int:
        return self.measurement.heard_unix_ms or self.measurement.unix_ms

    @property
    def _sent_unix_ms(self) -> int:
        return self.measurement.sent_unix_ms or self.measurement.unix_ms
