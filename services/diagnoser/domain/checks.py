"""The checks that were asked for, and how far each is: the fold of the events of CHECKS. Pure.

A check is queued until an instance of the diagnoser begins it, running until its end is on record. An instance that
dies is followed by another one, which begins the check anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile
from types import MappingProxyType
from typing import Final, Literal

from shared.events import CheckEnded, CheckRequested, CheckStarted
from shared.jobs import Recorded

ENDED_KEPT: Final = 200

CheckState = Literal["queued", "running", "finished", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Check:
    """One check; `message` says why it failed or was cancelled."""

    requested: CheckRequested
    requested_at: datetime
    state: CheckState = "queued"
    message: str = ""
    began_at: datetime | None = None
    in_use: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """What it is called."""
        return self.requested.check

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes of it."""
        return self.state not in ("queued", "running")


class Checks:
    """All checks that are under way, and the last that have ended."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}

    @property
    def by_id(self) -> Mapping[str, Check]:
        """Checks in the order in which they were asked for."""
        return MappingProxyType(self._checks)

    def under_way(self) -> Iterator[Check]:
        """Those that have not ended."""
        return (check for check in self._checks.values() if not check.has_ended)

    def has_ended(self, check: str) -> bool:
        """Whether the check was asked for, and nothing more comes of it."""
        known = self._checks.get(check)
        return known is not None and known.has_ended

    def before(self, check: str) -> Iterator[Check]:
        """Those that were asked for before this one and have not ended."""
        earlier = takewhile(lambda each: each.id != check, self._checks.values())
        return (each for each in earlier if not each.has_ended)

    def take(self, recorded: Recorded) -> None:
        """One more event of CHECKS."""
        event = recorded.event
        if isinstance(event.data, CheckRequested):
            self._checks.setdefault(event.data.check, Check(event.data, event.time))
            return
        known = self._checks.get(event.subject)
        if known is None or known.has_ended:
            return
        match event.data:
            case CheckStarted(in_use=in_use):
                self._checks[known.id] = replace(known, state="running", began_at=event.time, in_use=in_use)
            case CheckEnded(outcome=outcome, message=message):
                self._checks[known.id] = replace(known, state=outcome, message=message)
                self._forget()

    def _forget(self) -> None:
        """Forget the oldest of many that have ended; their reports are on record."""
        ended = [check.id for check in self._checks.values() if check.has_ended]
        for check in ended[: max(len(ended) - ENDED_KEPT, 0)]:
            del self._checks[check]
