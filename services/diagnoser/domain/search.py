"""The search for bad nodes and links by tests of pairs: what to test next, and what the tests say. Pure.

Two rounds screen everybody. Then each suspect (a node that was in a failed test, or that the ledger suspects) is
tested with trusted nodes, a new one each time, until it is `red` or has had `CONFIRMATIONS` tests; and some more where
these leave it open. A pair that failed although both of its nodes are sound otherwise is tested again, which tells a
link from its nodes, and ends the search where it explains all of their failures. So a run without suspects ends after
the screening. While suspects are confirmed the others would wait; for `MEANWHILE_ROUNDS` rounds they are screened on,
which costs no time.

Red is who is bad with a probability of `RED` and failed beside two different partners, where a failure that the ledger
remembers is one; a link needs two failures. Amber is who has a failure that nothing else explains. With two nodes the
partner is always the same, so neither is ever red by one run alone; both are amber.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

from services.diagnoser.domain.beliefs import RED, SUSPECT, Belief
from services.diagnoser.domain.blame import Blame, PairOutcome, blame
from services.diagnoser.domain.pairing import Pair, screening

SCREENING_ROUNDS: Final = 2
MEANWHILE_ROUNDS: Final = 3
CONFIRMATIONS: Final = 8
MOST_CONFIRMATIONS: Final = 12
LINK_TESTS: Final = 4
MAX_ROUNDS: Final = 26
LINK_RED: Final = 0.8
_CLEARED: Final = 2
_UNEXPLAINED: Final = 0.02

Colour = Literal["green", "amber", "red"]


@dataclass(frozen=True)
class Search:
    """A search so far: the nodes, what the ledger knows of parts, and the tests of each round.

    Links that are `settled` were fine lately and are not screened; nodes that are `sound` are trusted without a test.
    """

    nodes: tuple[str, ...]
    known: Mapping[str, Belief] = field(default_factory=dict)
    rounds: tuple[tuple[PairOutcome, ...], ...] = ()
    settled: frozenset[str] = frozenset()
    sound: frozenset[str] = frozenset()

    def with_round(self, tests: Sequence[PairOutcome]) -> Search:
        """The search after one more round."""
        return replace(self, rounds=(*self.rounds, tuple(tests)))

    @cached_property
    def tests(self) -> tuple[PairOutcome, ...]:
        """All tests so far."""
        return tuple(test for each in self.rounds for test in each)

    @cached_property
    def blames(self) -> dict[str, Blame]:
        """What to believe of all that was tested."""
        return blame(self.tests, self.known)

    def next_pairs(self) -> tuple[Pair, ...]:
        """The pairs of the next round; none where the search is over."""
        done = len(self.rounds)
        if done < len(self._screening):
            return self._screening[done]
        return tuple(self._confirming()) if done < MAX_ROUNDS else ()

    @cached_property
    def _screening(self) -> tuple[tuple[Pair, ...], ...]:
        """The rounds in which all are screened; of links that are settled nothing more needs to be known."""
        suspicion = {node: self._before(node) for node in self.nodes}
        rounds = (screening(self.nodes, suspicion, number) for number in range(SCREENING_ROUNDS))
        unsettled = (tuple(pair for pair in pairs if pair.link not in self.settled) for pairs in rounds)
        return tuple(pairs for pairs in unsettled if pairs)

    def colour(self, node: str) -> Colour:
        """What the tests say of a node."""
        failed = [test for test in self._of(node) if test.failed]
        witnesses = len({test.pair.partner(node) for test in failed}) + self._failed_before(node)
        if failed and witnesses >= 2 and self._suspicion(node) >= RED:
            return "red"
        return "amber" if failed and self._suspicion(node) >= _UNEXPLAINED else "green"

    def link_colour(self, pair: Pair) -> Colour:
        """What the tests say of the link between two nodes."""
        failures = sum(test.failed for test in self._of(pair.first) if test.pair == pair)
        if failures >= 2 and self._suspicion(pair.link) >= LINK_RED:
            return "red"
        return "amber" if failures and self._suspicion(pair.link) >= SUSPECT else "green"

    def _failed_before(self, node: str) -> bool:
        """Whether at least one failure of earlier jobs is remembered as this node's."""
        return node in self.known and self.known[node].fails >= 1

    def _before(self, part: str) -> float:
        return self.known[part].suspicion if part in self.known else 0.0

    def _suspicion(self, part: str) -> float:
        return self.blames[part].suspicion if part in self.blames else self._before(part)

    @cached_property
    def _tests_of(self) -> dict[str, list[PairOutcome]]:
        found: dict[str, list[PairOutcome]] = {node: [] for node in self.nodes}
        for test in self.tests:
            for node in test.pair.nodes:
                found[node].append(test)
        return found

    @cached_property
    def _confirmations(self) -> Counter[str]:
        """How many tests each node was in since the screening."""
        later = (test for tests in self.rounds[len(self._screening) :] for test in tests)
        return Counter(node for test in later for node in test.pair.nodes)

    def _of(self, node: str) -> list[PairOutcome]:
        return self._tests_of[node]

    def _confirming(self) -> Iterator[Pair]:
        """One test for each suspect that is not settled, as far as there are partners for them."""
        busy: set[str] = set()
        suspects = {node for node in self.nodes if self._is_open(node)}
        for pair in self._doubtful_links():
            if busy.isdisjoint(pair.nodes):
                busy.update(pair.nodes)
                yield pair
        trusted = [node for node in self.nodes if self._is_trusted(node)] or list(self.nodes)
        trusted.sort(key=lambda node: (self._suspicion(node), len(self._of(node)), node))
        for suspect in sorted(suspects, key=lambda node: (len(self._of(node)), -self._suspicion(node), node)):
            partner = self._partner(suspect, trusted, busy)
            if suspect not in busy and partner is not None:
                busy.update((suspect, partner))
                yield Pair.of(suspect, partner)
        if suspects and len(self.rounds) < len(self._screening) + MEANWHILE_ROUNDS:
            idle = [node for node in self.nodes if node not in busy and node not in suspects]
            yield from screening(idle, {}, len(self.rounds))

    def _is_open(self, node: str) -> bool:
        """Whether the node is suspect and more tests could settle it."""
        if len(self.nodes) <= 2 or self.colour(node) == "red" or self._is_explained(node):
            return False
        is_suspect = self._before(node) >= SUSPECT or any(test.failed for test in self._of(node))
        limit = CONFIRMATIONS if self._suspicion(node) < SUSPECT else MOST_CONFIRMATIONS
        return is_suspect and self._confirmations[node] < limit

    def _is_explained(self, node: str) -> bool:
        """Whether all failures of the node are those of links that are bad, and nothing else speaks against it."""
        failed = {test.pair for test in self._of(node) if test.failed}
        is_cleared = bool(failed) and self._suspicion(node) < _UNEXPLAINED and self._before(node) < SUSPECT
        return is_cleared and all(self.link_colour(pair) == "red" for pair in failed)

    def _is_trusted(self, node: str) -> bool:
        tests = self._of(node)
        is_known = bool(tests) or node in self.sound
        return is_known and not any(test.failed for test in tests) and self._suspicion(node) < SUSPECT

    def _partner(self, suspect: str, trusted: Sequence[str], busy: set[str]) -> str | None:
        met = Counter(test.pair.partner(suspect) for test in self._of(suspect))
        free = (node for node in trusted if node not in busy and node != suspect)
        new = next((node for node in free if node not in met), None)
        known = (node for node in sorted(met, key=lambda node: met[node]) if node in trusted and node not in busy)
        return new or next(known, None)

    def _doubtful_links(self) -> Iterator[Pair]:
        """Pairs that failed, whose nodes have both been fine beside others since."""
        tested = Counter(test.pair for test in self.tests)
        for pair in sorted({test.pair for test in self.tests if test.failed}):
            if self.link_colour(pair) == "red":
                continue
            if tested[pair] < LINK_TESTS and all(self._is_fine_without(node, pair) for node in pair.nodes):
                yield pair

    def _is_fine_without(self, node: str, pair: Pair) -> bool:
        others = [test for test in self._of(node) if test.pair != pair]
        return len(others) >= _CLEARED and not any(test.failed for test in others)
