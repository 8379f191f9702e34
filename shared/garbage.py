"""How often a service's process looks for garbage in cycles.

A service makes hundreds of thousands of small objects that live long: every job that it follows, every event of the
past that it reads at its start. Python's own pace, a look at every 700 new ones, goes over all of them again and again
and was a third of a start over 100,000 jobs. Reference counts free everything else at once whatever the pace, and what
is in cycles waits a few megabytes longer.
"""

from __future__ import annotations

import gc
from typing import Final

_NEW_OBJECTS: Final = 50_000
_YOUNG_ROUNDS: Final = 10
_MIDDLE_ROUNDS: Final = 10


def collect_rarely() -> None:
    """Leave what is imported by now out of every look, and look at each 50,000 new objects."""
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, _YOUNG_ROUNDS, _MIDDLE_ROUNDS)
