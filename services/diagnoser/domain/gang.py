"""What collectives of a whole gang say, and where to look when they are slow. Pure.

Bus bandwidths are judged by the floor of the profile, by earlier gangs of as many nodes of the same kind, and between
GPUs on machines of their own by a model: a ring is as fast as its slowest way, so an all-reduce must reach `OF_MODEL`
of the slowest pair. What is slow twice is looked for: the leaf switches of the gang are halved, and each half makes the
collectives by itself, until one leaf is left, or neither half is slow and it is the ways between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from services.diagnoser.domain.book import Book
from services.diagnoser.domain.devices import told_of
from services.diagnoser.domain.figures import FigureRule, Ruling, rule_on
from services.diagnoser.domain.gathered import GangValue, Gathered
from shared.events import FigureMeasured

OF_MODEL: Final = 0.9
_EFFECTS: Final[Mapping[str, tuple[float, float]]] = {"nccl": (0.1, 0.03), "gloo": (0.3, 0.1), "tcp": (0.3, 0.1)}
_NAMES: Final[Mapping[str, str]] = {"allReduceMbS": "all-reduce", "allToAllMbS": "all-to-all"}


def judged(value: GangValue, gathered: Gathered, book: Book) -> Iterator[tuple[FigureRule, Ruling]]:
    """Each figure with what is said of it."""
    first = value.nodes[0]
    effect, noise = _EFFECTS[value.transport]
    for figure, name in _NAMES.items():
        if figure in value.figures:
            floors = [gathered.profile(node).floors.get(figure) for node in value.nodes]
            given = [floor for floor in floors if floor is not None]
            modelled = _model(value, gathered) if figure == "allReduceMbS" else None
            floor = max([*given, *([modelled] if modelled else [])], default=None)
            called = f"{name} of {len(value.nodes)} nodes over {value.transport}"
            rule = FigureRule(called, "MB/s", floor=floor, effect=effect, noise=noise)
            # Each node of an earlier gang has its figure on record, and a gang is one measurement.
            gangs = tuple(dict.fromkeys(book.fleet(gathered.kind(first), called)))
            yield rule, rule_on(rule, value.figures[figure], (), gangs)


def figures_of(value: GangValue, gathered: Gathered, book: Book) -> list[FigureMeasured]:
    """The figures as the report of each of the nodes has them."""
    return [told_of(rule, ruling, "") for rule, ruling in judged(value, gathered, book)]


def is_slow(value: GangValue, gathered: Gathered, book: Book) -> bool:
    """Whether a figure is worse than it should be."""
    return any(ruling.is_bad for _rule, ruling in judged(value, gathered, book))


def halves(leaves: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The leaves in two."""
    middle = len(leaves) // 2
    return tuple(leaves[:middle]), tuple(leaves[middle:])


def _model(value: GangValue, gathered: Gathered) -> float | None:
    """What an all-reduce must reach by the pairs; None where nodes share machines, or nobody knows enough."""
    machines = {gathered.machines.get(node, node) for node in value.nodes}
    if value.transport != "nccl" or len(machines) < len(value.nodes):
        return None
    tests = (test for each in gathered.rounds for test in each if test.transport == "nccl")
    known = [test.bandwidth_mb_s for test in tests if test.bandwidth_mb_s and {*test.pair.nodes} <= {*value.nodes}]
    return OF_MODEL * min(known) if known else None
