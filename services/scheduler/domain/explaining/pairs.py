"""Two changes together, for a gang that no single one starts: another pool and fewer replicas, say.

The first is one that need not start the gang by itself, the second is looked for with the first one made. A pair takes
many trial plans, so the likely ones come first and the search ends with the first few that are found.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from services.scheduler.domain.explaining.changes import Change, Means, changes, eased, elsewhere, smaller
from services.scheduler.domain.explaining.trials import Trials
from services.scheduler.domain.gang import Gang

PAIRS_MAX: Final = 3
_FIRSTS_MAX: Final = 12
_TYPES_A_ROLE: Final = 2


def pairs(gang: Gang, trials: Trials, means: Means) -> tuple[Change, ...]:
    """The first few pairs of changes with which the gang starts now."""
    return tuple(islice(_found(gang, trials, means), PAIRS_MAX))


def _found(gang: Gang, trials: Trials, means: Means) -> Iterator[Change]:
    """Pairs, each once in whatever order it can be made."""
    told: set[tuple[object, ...]] = set()
    for first in islice(_firsts(gang, means), _FIRSTS_MAX):
        for second in _best(changes(first.gang, trials, means)):
            if second.gang.shape not in told:
                told.add(second.gang.shape)
                yield _both(first, second)


def _firsts(gang: Gang, means: Means) -> Iterator[Change]:
    yield from eased(gang)
    yield from elsewhere(gang, means)
    for index in range(len(gang.roles)):
        yield from islice(smaller(gang, index, means), _TYPES_A_ROLE)


def _best(found: Iterator[Change]) -> tuple[Change, ...]:
    """The one to make second: one that keeps all replicas, where there is such a one."""
    return tuple(sorted(found, key=lambda change: change.kind == "replicas")[:1])


def _both(first: Change, second: Change) -> Change:
    text = f"{first.text}, and {second.text}"
    return Change("several", text, second.gang, settings=(*first.settings, *second.settings))
