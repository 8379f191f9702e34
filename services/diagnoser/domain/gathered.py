"""All that one diagnosis has measured so far, before anything is said of it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from services.diagnoser.domain.beliefs import Belief
from services.diagnoser.domain.book import Book
from services.diagnoser.domain.comparing import Comparison
from services.diagnoser.domain.devices import Devices, Kind, Looks
from services.diagnoser.domain.injection import Injection
from services.diagnoser.domain.pairing import Pair
from services.diagnoser.domain.readings import Reading
from services.diagnoser.domain.stages import EVERYTHING, Profile


@dataclass(frozen=True, slots=True)
class PairValue:
    """One test of a pair: its figures, or what went wrong. With several rails the bandwidth is that of all together.

    Where machines are busy it is the `best_of` so many. Where that was in question, `compared` says what came of
    measuring it in turns with `beside`, trusted pairs.
    """

    pair: Pair
    bandwidth_mb_s: float | None = None
    latency_us: float | None = None
    problem: str = ""
    transport: str = "tcp"
    rails: tuple[float, ...] = ()
    best_of: int = 1
    compared: Comparison | None = None
    beside: tuple[Pair, ...] = ()

    def better(self, again: PairValue) -> PairValue:
        """The better of this value and that of one more test of the same pair, or what went wrong with that test."""
        if again.bandwidth_mb_s is None:
            return again
        best = max(self, again, key=lambda value: value.bandwidth_mb_s or 0.0)
        return replace(best, best_of=self.best_of + again.best_of)


@dataclass(frozen=True, slots=True)
class GangValue:
    """Collectives of these nodes: the figures that all of them have told at least, and what went wrong where."""

    nodes: tuple[str, ...]
    transport: str
    figures: Mapping[str, float] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gathered:
    """All that was measured; `readings` of a node in the order in which they were made.

    Of the nodes that are `loaded` those that are `tested` have no pass; the others are their partners, or meet them as
    a gang. Links that are `settled` are known to be fine. `devices` are the GPUs that are tested, `wanted` what they
    were called before it was known which these are. Nodes with an excuse are left out, and not to blame for it; those
    that are `spared` have no pass, and are not tested since a job is on them. `cut_short` says why
    tests ended before all was known.
    """

    nodes: tuple[str, ...]
    machines: Mapping[str, str]
    devices: Mapping[str, Collection[str]]
    readings: Mapping[str, tuple[Reading | None, ...]]
    looks: Looks = field(default_factory=dict)
    about: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    rounds: tuple[tuple[PairValue, ...], ...] = ()
    known: Mapping[str, Belief] = field(default_factory=dict)
    tested: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    settled: frozenset[str] = frozenset()
    paired: tuple[str, ...] = ()
    worker_problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gang: GangValue | None = None
    gang_doubts: Mapping[str, str] = field(default_factory=dict)
    excuses: Mapping[str, str] = field(default_factory=dict)
    wanted: Mapping[str, Collection[str]] = field(default_factory=dict)
    cut_short: str = ""
    in_use: frozenset[str] = frozenset()
    spared: frozenset[str] = frozenset()
    leaves: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    injections: tuple[Injection, ...] = ()

    def name(self, node: str) -> str:
        """What people call the node."""
        return self.names.get(node, node)

    def kind(self, node: str) -> str:
        """Which machines the node's figures can be compared with."""
        last = self.readings[node][-1] if self.readings[node] else None
        return last.measurement.kind if last else ""

    def profile(self, node: str) -> Profile:
        """Which stages the node gets, and its floors."""
        return self.profiles.get(node, EVERYTHING)

    def has_gpus(self, node: str) -> bool:
        """Whether the node is tested on GPUs."""
        return self.about.get(node, {}).get("transport") == "nccl"

    def transport(self, pair: Pair) -> str:
        """What carries data between two nodes: what both have, and plain TCP else."""
        one, other = (self.about.get(node, {}).get("transport", "tcp") for node in pair.nodes)
        return one if one == other else "tcp"

    def excused(self, excuses: Mapping[str, str]) -> Gathered:
        """Without these nodes, and without what was measured on them under load: others were at work there, too."""
        stay = tuple(
            tuple(each for each in values if excuses.keys().isdisjoint(each.pair.nodes)) for values in self.rounds
        )
        return replace(
            self,
            excuses={**self.excuses, **excuses},
            loaded=tuple(node for node in self.loaded if node not in excuses),
            tested=tuple(node for node in self.tested if node not in excuses),
            paired=tuple(node for node in self.paired if node not in excuses),
            looks={node: looks for node, looks in self.looks.items() if node not in excuses},
            worker_problems={node: each for node, each in self.worker_problems.items() if node not in excuses},
            rounds=stay,
        )

    def with_value(self, before: PairValue, after: PairValue) -> Gathered:
        """The same with what is known of a test of a pair by now."""
        rounds = (tuple(after if value is before else value for value in values) for values in self.rounds)
        return replace(self, rounds=tuple(rounds))

    def of_devices(self, book: Book) -> Devices:
        """What single nodes' tests say."""
        kinds = {
            node: Kind(self.kind(node), self.about.get(node, {}).get("torch", ""), self.has_gpus(node))
            for node in self.nodes
        }
        return Devices(self.looks, kinds, book, self.profiles)
