"""How long a decision waits for the ends of logs: ten seconds during which they could come.

Time counts only while the way from the replicas' files to this watchdog is open. When it closes (nats-server or the
platform was restarted, the agent is away, the log stream is full) the ten seconds begin anew with its opening, since
everything that was written meanwhile has to travel first. A way that stays closed is waited for a minute in all: logs
of a machine that is gone never come, and its job must be decided nevertheless.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

END_MARK_WAIT_S: Final = 10.0
CLOSED_WAIT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the way has been open without a break, and how long it was closed in all."""

    open_s: float = 0.0
    closed_s: float = 0.0

    def after(self, seconds: float, *, is_open: bool) -> Patience:
        """The patience that is left when so many seconds have passed."""
        if is_open:
            return Patience(self.open_s + seconds, self.closed_s)
        return Patience(0.0, self.closed_s + seconds)

    @property
    def is_over(self) -> bool:
        """Whether to decide without what is missing."""
        return self.open_s >= END_MARK_WAIT_S or self.closed_s >= CLOSED_WAIT_S
