"""Slows down whoever guesses passwords: ten tries for a key, then one a minute.

A try is counted before the password is looked at, so that many at once gain nothing, and a right password forgets them.
Callers choose the key: the submitter uses user name and client address together, so that nobody can lock out somebody
else from afar. The state is in memory and bounded: past ten thousand keys the one touched longest ago is forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Final

from shared.clock import Clock
from shared.errors import TooManyRequestsError

FREE_TRIES: Final = 10
FORGIVEN_EACH_S: Final = 60.0
MAX_KEYS: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Tries:
    count: float
    at: datetime


class LoginLimiter:
    """Counts login tries by key."""

    def __init__(self, clock: Clock, *, max_keys: int = MAX_KEYS) -> None:
        self._clock = clock
        self._max_keys = max_keys
        self._tries: OrderedDict[str, _Tries] = OrderedDict()

    def attempt(self, key: str) -> None:
        """Count a try, or raise TooManyRequestsError where this key has to wait; call before checking the password."""
        count = self._counting(key)
        wait_s = ceil(round((count - (FREE_TRIES - 1)) * FORGIVEN_EACH_S, 3))
        if wait_s > 0:
            raise TooManyRequestsError(
                f"too many wrong passwords for this user; try again in {wait_s} s", retry_after_s=wait_s
            )
        self._tries[key] = _Tries(count + 1, self._clock.now())
        self._tries.move_to_end(key)
        if len(self._tries) > self._max_keys:
            self._tries.popitem(last=False)

    def succeeded(self, key: str) -> None:
        """Forget what was wrong before."""
        self._tries.pop(key, None)

    def _counting(self, key: str) -> float:
        """Tries that still count."""
        noted = self._tries.get(key)
        if noted is None:
            return 0.0
        return max(0.0, noted.count - (self._clock.now() - noted.at).total_seconds() / FORGIVEN_EACH_S)
