"""What the look at a node has measured, and when. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from shared.agent_wire import Measurement


@dataclass(frozen=True, slots=True)
class Reading:
    """A measurement, and between which instants of our clock it was made."""

    measurement: Measurement
    asked_unix_ms: int
    answered_unix_ms: int

    @property
    def clock_skew_s(self) -> float:
        """How far the node's clock is outside of these instants."""
        late = self.measurement.unix_ms - self.answered_unix_ms
        early = self.asked_unix_ms - self.measurement.unix_ms
        return max(late, early, 0) / 1000
