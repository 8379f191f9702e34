"""Faults of the API server, switched on by tests: refusals, delays, lost answers, broken and silent watches.

A `Fault` is for requests that its pattern matches, and for so many of them; the switches for watches concern all that
are open. What a fault hits is counted, so that a test can tell that it did.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from tests.support.kubernetes.errors import ApiError
from tests.support.kubernetes.store import Pulse

Kind = Literal["refuse", "delay", "drop", "lose answer"]
REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


@dataclass
class Fault:
    """What happens to the next requests of a kind."""

    kind: Kind
    pattern: re.Pattern[str]
    left: int
    code: int = 500
    message: str = ""
    retry_after_s: int | None = None
    delay_s: float = 0
    hits: int = 0

    def error(self) -> ApiError:
        reason = REASONS.get(self.code, "Unknown")
        return ApiError(self.code, reason, self.message or f"a fault of the test: {reason}", self.retry_after_s)


@dataclass
class Faults:
    """The faults that are switched on. Patterns are searched in `METHOD /path?query`."""

    pulse: Pulse
    cuts: int = 0
    """How often all watches were cut: a watch ends when this moves on."""
    cut_mid_event: bool = False
    expiries: int = 0
    silent: bool = False
    losses: int = 0
    """How often all watches were lost: a watch says nothing more when this moves on."""
    gone_as_status: bool = False
    """Watches from an expired revision get HTTP 410 instead of an ERROR event."""
    _faults: list[Fault] = field(default_factory=list)

    def refuse(
        self, pattern: str, *, code: int = 500, times: int = 1, retry_after_s: int | None = None, message: str = ""
    ) -> Fault:
        """Answer with an error and do nothing."""
        return self._add(Fault("refuse", re.compile(pattern), times, code, message, retry_after_s))

    def delay(self, pattern: str, delay_s: float, *, times: int = 1) -> Fault:
        """Answer late."""
        return self._add(Fault("delay", re.compile(pattern), times, delay_s=delay_s))

    def drop(self, pattern: str, *, times: int = 1) -> Fault:
        """Close the connection instead of doing anything."""
        return self._add(Fault("drop", re.compile(pattern), times))

    def lose_answer(self, pattern: str, *, times: int = 1) -> Fault:
        """Do what is asked, then close the connection: the client cannot know that it was done."""
        return self._add(Fault("lose answer", re.compile(pattern), times))

    def cut_watches(self, *, mid_event: bool = False) -> None:
        """Break the connection of every open watch, if wanted in the middle of its next event."""
        self.cuts += 1
        self.cut_mid_event = mid_event
        self.pulse.beat()

    def expire_watches(self) -> None:
        """Every open watch gets an ERROR event of code 410 and ends."""
        self.expiries += 1
        self.pulse.beat()

    def silence_watches(self, *, silent: bool = True) -> None:
        """Open watches stay open and say nothing, not even a bookmark."""
        self.silent = silent
        self.pulse.beat()

    def lose_watches(self) -> None:
        """Watches that are open now stay open and never say anything again; those that are opened later do."""
        self.losses += 1
        self.pulse.beat()

    def clear(self) -> None:
        self._faults.clear()
        self.silence_watches(silent=False)

    def take(self, kind: Kind, request: str) -> Fault | None:
        """The fault of this kind that the request runs into, used up by one."""
        for fault in self._faults:
            if fault.kind == kind and fault.left > 0 and fault.pattern.search(request):
                fault.left -= 1
                fault.hits += 1
                return fault
        return None

    def _add(self, fault: Fault) -> Fault:
        self._faults.append(fault)
        return fault
