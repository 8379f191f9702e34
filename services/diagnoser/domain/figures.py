"""Whether one measured figure is as it should be: pure, and each figure by itself, never a sum of several.

A figure is bad where it is below what its kind of node must reach at least (the floor), or where it stands out: more
than `OUTLYING` spreads from what is ordinary, and by more than the figure's own minimum effect, both at once. The
spread is the median absolute deviation, scaled to a standard deviation, and never less than the figure's own noise, so
that a fleet whose values happen to agree to the last digit raises no alarm over nothing. Few values say less of what
is ordinary than many, so the spread is wider for them.

What is ordinary is said by the others of this run where there are enough of them, and else by these together with what
nodes of the same kind gave before; so a gang of one, two or three nodes is judged like any other. Beside that a node
is compared with its own past. Where nothing is known yet, only the floor judges, and the ruling says so.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

OUTLYING: Final = 5.0
MAD_TO_DEVIATION: Final = 1.4826
ENOUGH_OTHERS: Final = 7
MANY: Final = 64
FEWEST_VALUES: Final = 3
FEWEST_OWN: Final = 5


@dataclass(frozen=True, slots=True)
class FigureRule:
    """How a figure is judged: `floor` is the least that is good, or the most where less is better.

    `effect` is the part of the ordinary value by which a bad one must differ at least, `noise` how far two measurements
    of the same sound device are apart.
    """

    name: str
    unit: str
    more_is_better: bool = True
    floor: float | None = None
    effect: float = 0.05
    noise: float = 0.01

    def breaks_floor(self, value: float) -> bool:
        """Whether the value is worse than the floor."""
        return self.floor is not None and (value < self.floor if self.more_is_better else value > self.floor)

    def shortfall(self, value: float, ordinary: float) -> float:
        """How much worse than ordinary the value is, in units of the figure; negative where it is better."""
        return ordinary - value if self.more_is_better else value - ordinary


@dataclass(frozen=True)
class Ordinary:
    """What comparable measurements gave."""

    values: tuple[float, ...]
    of: str

    @cached_property
    def median(self) -> float:
        """The middle of them."""
        return statistics.median(self.values)

    def spread(self, noise: float) -> float:
        """How far they are apart: a robust standard deviation, and at least the noise of the figure."""
        return max(MAD_TO_DEVIATION * self._mad, noise * abs(self.median))

    def percentile(self, value: float) -> float:
        """Which part of them, in percent, the value is above of."""
        return 50 * (bisect_left(self._ordered, value) + bisect_right(self._ordered, value)) / len(self._ordered)

    @cached_property
    def _mad(self) -> float:
        return statistics.median([abs(value - self.median) for value in self.values])

    @cached_property
    def _ordered(self) -> list[float]:
        return sorted(self.values)


class Peers:
    """All values of a figure in one run; each is judged by the others, or by all of them where they are many."""

    def __init__(self, values: Iterable[float]) -> None:
        self._values = tuple(values)
        self._all = Ordinary(self._values, f"{len(self._values)} values of this run")

    def beside(self, value: float) -> Ordinary | tuple[float, ...]:
        """What the value, which is one of them, is compared with. Among many it does not matter itself."""
        if len(self._values) > MANY:
            return self._all
        others = list(self._values)
        others.remove(value)
        return tuple(others)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What is said of one figure: `why` is empty where it is good, `against` what it was compared with."""

    value: float
    why: str = ""
    against: str = ""
    median: float | None = None
    percentile: float | None = None

    @property
    def is_bad(self) -> bool:
        """Whether something is wrong."""
        return bool(self.why)


def rule_on(
    figure: FigureRule,
    value: float,
    others: Ordinary | Iterable[float] = (),
    fleet: Sequence[float] = (),
    own: Sequence[float] = (),
) -> Ruling:
    """The ruling on a value, beside the others of this run, the fleet's past and the node's own."""
    ordinary = others if isinstance(others, Ordinary) else _ordinary(tuple(others), tuple(fleet))
    why = _floor(figure, value) or _stands_out(figure, value, ordinary) or _stands_out(figure, value, _past(own))
    if ordinary is None:
        return Ruling(value, why, "the floor alone" if figure.floor is not None else "nothing yet")
    return Ruling(value, why, ordinary.of, ordinary.median, round(ordinary.percentile(value), 1))


def least_good(figure: FigureRule, fleet: Sequence[float]) -> float:
    """Where the green band begins by what is known before a run; 0 where nothing is, or where less is better."""
    if not figure.more_is_better:
        return 0.0
    if len(fleet) < FEWEST_VALUES:
        return figure.floor or 0.0
    known = Ordinary(tuple(fleet), "")
    allowed = max(figure.effect * known.median, OUTLYING * known.spread(figure.noise))
    return max(known.median - allowed, figure.floor or 0.0)


def _ordinary(others: tuple[float, ...], fleet: tuple[float, ...]) -> Ordinary | None:
    if len(others) >= ENOUGH_OTHERS:
        return Ordinary(others, f"{len(others)} others of this run")
    together = others + fleet
    if len(together) < FEWEST_VALUES:
        return None
    earlier = f"{len(fleet)} earlier values" if fleet else ""
    return Ordinary(together, " and ".join(filter(None, (_counted(others), earlier))))


def _counted(others: Sequence[float]) -> str:
    return f"{len(others)} {'other' if len(others) == 1 else 'others'} of this run" if others else ""


def _past(own: Sequence[float]) -> Ordinary | None:
    return Ordinary(tuple(own), f"its own last {len(own)} values") if len(own) >= FEWEST_OWN else None


def _floor(figure: FigureRule, value: float) -> str:
    if figure.floor is None or not figure.breaks_floor(value):
        return ""
    bound = "at least" if figure.more_is_better else "at most"
    return f"{_told(figure, value)}; {bound} {figure.floor:.4g} {figure.unit} are needed"


def _stands_out(figure: FigureRule, value: float, ordinary: Ordinary | None) -> str:
    if ordinary is None:
        return ""
    median = ordinary.median
    short = figure.shortfall(value, median)
    spread = ordinary.spread(figure.noise) * (1 + 1 / len(ordinary.values))
    if short <= figure.effect * abs(median) or short <= OUTLYING * spread:
        return ""
    part = f"{100 * value / median:.0f} % of" if median else "not"
    return f"{_told(figure, value)}, {part} the {median:.4g} {figure.unit} that {ordinary.of} have in the middle"


def _told(figure: FigureRule, value: float) -> str:
    return f"{figure.name} is {value:.4g} {figure.unit}"
