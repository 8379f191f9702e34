"""What the diagnoser's search for bad nodes finds, in simulation, beside the two-round rule of dlrover's node check.

Every run draws bad nodes whose fault shows in a part `p` of the tests; any pair fails by chance with probability `e`.
Both rules see the same nodes. dlrover's rule: consecutive pairs, then the nodes by their time with the fastest and the
slowest paired; a node that fails both rounds is bad. Recall is the part of bad nodes that is found, false nodes are
sound ones that would be taken out, a run. With the ledger the same nodes are used by ten jobs after each other: what is
found is taken out, and what is learned is kept. Each figure is of so many runs that `_BAD_NODES` bad nodes were looked
for, twice as many in the smallest gangs; all CPUs of the machine are used.

Before that it measures how long a diagnosis takes on this machine, with the real probe and workers. `--device` makes
the stages of single nodes on the machine's GPUs instead (`benchmarks/device.py`, which needs nothing but PyTorch).
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from benchmarks import device
from benchmarks.diagnosed_machine import machine_rows
from benchmarks.report import Row, progress, report
from services.diagnoser.domain.beliefs import Belief
from services.diagnoser.domain.blame import PairOutcome
from services.diagnoser.domain.pairing import Pair
from services.diagnoser.domain.search import Search

_SIZES: Final = ((8, 1), (16, 2), (64, 4), (256, 4), (1024, 8))
_SHOWS: Final = (1.0, 0.5, 0.25)
_NOISES: Final = (0.001, 0.01)
_JOBS: Final = 10
_HOURS_BETWEEN: Final = 6.0
_BAD_NODES: Final = 600
_AT_A_TIME: Final = 5


@dataclass(frozen=True, slots=True)
class World:
    """Nodes, of which the first `bad` ones (in an order that is drawn) have a fault."""

    nodes: tuple[str, ...]
    bad: frozenset[str]
    shows: float
    noise: float
    dice: random.Random

    @classmethod
    def drawn(cls, size: int, bad: int, shows: float, noise: float, seed: int) -> World:
        dice = random.Random(f"{size}/{bad}/{shows}/{noise}/{seed}")
        nodes = tuple(f"n-{number:04d}" for number in range(size))
        return cls(nodes, frozenset(dice.sample(nodes, bad)), shows, noise, dice)

    def fails(self, nodes: Sequence[str]) -> bool:
        """Whether a test of these nodes together fails."""
        shown = [node in self.bad and self.dice.random() < self.shows for node in nodes]
        return any(shown) or self.dice.random() < self.noise


@dataclass(frozen=True, slots=True)
class Found:
    """What a rule said of a world."""

    recall: float
    false: int
    rounds: int = 2


def main() -> None:
    """Simulate and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs")
    parser.add_argument("--device", action="store_true", help="the stages of this machine's devices instead")
    parser.add_argument("--machine", action="store_true", help="the times on this machine alone")
    given = parser.parse_args()
    if given.device:
        device.main()
        return
    rows = list(machine_rows())
    if given.machine:
        report("diagnoser", rows)
        return
    bad_nodes = _BAD_NODES // 10 if given.quick else _BAD_NODES
    with ProcessPoolExecutor() as pool:
        rows += [row for case in _cases() for row in _compared(pool, case, bad_nodes)]
        rows += [row for noise in _NOISES for row in _with_the_ledger(pool, noise, bad_nodes)]
    report("diagnoser", rows)


@dataclass(frozen=True, slots=True)
class Case:
    """Worlds that differ by what is drawn."""

    size: int
    bad: int
    shows: float
    noise: float

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"{self.size} nodes, {self.bad} bad, p {self.shows:g}, e {self.noise:g}"

    def world(self, seed: int) -> World:
        """One of them."""
        return World.drawn(self.size, self.bad, self.shows, self.noise, seed)

    def seeds(self, bad_nodes: int) -> range:
        """As many runs as have so many bad nodes, and twice as many where there is one bad node a run."""
        return range(bad_nodes * (1 if self.bad > 1 else 2) // self.bad)


def _cases() -> Iterator[Case]:
    for size, bad in _SIZES:
        for shows in _SHOWS:
            yield from (Case(size, bad, shows, noise) for noise in _NOISES)


def _compared(pool: Executor, case: Case, bad_nodes: int) -> Iterator[Row]:
    name = case.name
    progress(name)
    both = list(pool.map(partial(_both, case), case.seeds(bad_nodes), chunksize=_AT_A_TIME))
    ours, peer = _mean([each for each, _ in both]), _mean([each for _, each in both])
    goal = 2.5 * peer[0] if case.shows == 0.5 else None
    yield Row(f"{name}: recall", ours[0], "", "higher", goal, "dlrover's rule", peer[0])
    yield Row(f"{name}: false nodes a run", ours[1], "", "lower", peer[1], "dlrover's rule", peer[1])
    yield Row(f"{name}: rounds", ours[2], "", "lower", None, "dlrover's rule", peer[2])


def _both(case: Case, seed: int) -> tuple[Found, Found]:
    return ours_on(case.world(seed), {})[0], dlrover_on(case.world(seed))


def _mean(found: Sequence[Found]) -> tuple[float, float, float]:
    runs = len(found)
    recall, false = sum(each.recall for each in found) / runs, sum(each.false for each in found) / runs
    return recall, false, sum(each.rounds for each in found) / runs


# --- the rules -------------------------------------------------------------------------------------------------------


def ours_on(world: World, known: Mapping[str, Belief], nodes: Sequence[str] = ()) -> tuple[Found, Search, set[str]]:
    """The search, run to its end on all nodes of the world, or on these."""
    search = Search(tuple(nodes) or world.nodes, known)
    while pairs := search.next_pairs():
        search = search.with_round([_tested(world, pair) for pair in pairs])
    red = {node for node in search.nodes if search.colour(node) == "red"}
    return Found(len(red & world.bad) / len(world.bad), len(red - world.bad), len(search.rounds)), search, red


def _tested(world: World, pair: Pair) -> PairOutcome:
    return PairOutcome(pair, "slow" if world.fails(pair.nodes) else "")


def dlrover_on(world: World) -> Found:
    """dlrover's rule on all nodes of the world."""
    bad = dlrover_bad(world, world.nodes)
    return Found(len(bad & world.bad) / len(world.bad), len(bad - world.bad))


def dlrover_bad(world: World, nodes: Sequence[str]) -> set[str]:
    """Nodes that fail in both rounds: in twos, then the failed with the others."""
    failed = _failed_groups(world, _in_twos(nodes))
    ranked = sorted(nodes, key=lambda node: (node in failed, world.dice.random()))
    second: list[tuple[str, ...]] = [(ranked[place], ranked[-1 - place]) for place in range(len(ranked) // 2)]
    if len(ranked) % 2:
        second[-1] += (ranked[len(ranked) // 2],)
    return failed & _failed_groups(world, second)


def _in_twos(nodes: Sequence[str]) -> list[tuple[str, ...]]:
    groups = [tuple(nodes[place : place + 2]) for place in range(0, len(nodes) - 1, 2)]
    if len(nodes) % 2:
        groups[-1] += (nodes[-1],)
    return groups


def _failed_groups(world: World, groups: Sequence[tuple[str, ...]]) -> set[str]:
    return {node for group in groups if world.fails(group) for node in group}


# --- ten jobs --------------------------------------------------------------------------------------------------------


def _with_the_ledger(pool: Executor, noise: float, bad_nodes: int) -> Iterator[Row]:
    case = Case(64, 4, 0.25, noise)
    name = f"{_JOBS} jobs on {case.name}"
    progress(name)
    both = list(pool.map(partial(_both_in_ten_jobs, case), case.seeds(bad_nodes // 5), chunksize=_AT_A_TIME))
    ours, peer = _mean([each for each, _ in both]), _mean([each for _, each in both])
    yield Row(f"{name}, with the ledger: recall", ours[0], "", "higher", 0.9, "dlrover's rule", peer[0])
    yield Row(f"{name}: false nodes in all", ours[1], "", "lower", peer[1], "dlrover's rule", peer[1])


def _both_in_ten_jobs(case: Case, seed: int) -> tuple[Found, Found]:
    return _ten_jobs(case.world(seed), _remembering()), _ten_jobs(case.world(seed), dlrover_bad)


Rule = Callable[[World, Sequence[str]], set[str]]


def _ten_jobs(world: World, rule: Rule) -> Found:
    taken: set[str] = set()
    for _ in range(_JOBS):
        taken |= rule(world, [node for node in world.nodes if node not in taken])
    return Found(len(taken & world.bad) / len(world.bad), len(taken - world.bad))


def _remembering() -> Rule:
    """The search with what it has learned from the jobs before."""
    ledger: dict[str, Belief] = {}

    def rule(world: World, nodes: Sequence[str]) -> set[str]:
        known = {part: belief.faded(_HOURS_BETWEEN) for part, belief in ledger.items()}
        _found, search, red = ours_on(world, known, nodes)
        for part, blame in search.blames.items():
            ledger[part] = blame.learned
        return red

    return rule


if __name__ == "__main__":
    main()
