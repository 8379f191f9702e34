"""Tests of pairs of nodes: a round of them, and one in question in turns with trusted ones.

Nodes of one machine are tested one after the other, others at the same time. What is compared is measured alone. Of
nodes that turn out to have an excuse nothing is told but that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import cast

from services.diagnoser.asking import Asking, ExcusedError, NotReachedError, Subject
from services.diagnoser.domain.book import Book
from services.diagnoser.domain.comparing import Comparison
from services.diagnoser.domain.gathered import Gathered, PairValue
from services.diagnoser.domain.pair_values import PairRulings, enough_of_pair
from services.diagnoser.domain.pairing import Pair, waves
from services.diagnoser.domain.pretending import changed_bandwidth, pretended_problem
from shared.diagnosis_wire import TestAnswer, Transport


class Exchanges:
    """Asks for tests of pairs; `chance` gives numbers from 0 to 1 for faults that are pretended now and then.

    `excuses` are those of nodes that turned out to have one.
    """

    def __init__(self, subject: Subject, asking: Asking, book: Book, chance: Callable[[], float]) -> None:
        self._subject = subject
        self._asking = asking
        self._book = book
        self._chance = chance
        self.excuses: dict[str, str] = {}

    async def values(self, pairs: Sequence[Pair], gathered: Gathered, *, again: bool = False) -> tuple[PairValue, ...]:
        """What each of these pairs gives, but those of nodes with an excuse; `again` measures as long as it may."""
        found: list[PairValue] = []
        for wave in waves(pairs, self._subject.machines):
            enough = ({} if again else enough_of_pair(pair, gathered, self._book) for pair in wave)
            asked = (self._value(pair, gathered, known) for pair, known in zip(wave, enough, strict=True))
            found += [value for value in await asyncio.gather(*asked) if value is not None]
        # What was found by then of who has an excuse now goes as well.
        return tuple(value for value in found if self.excuses.keys().isdisjoint(value.pair.nodes))

    async def compared(self, value: PairValue, gathered: Gathered) -> PairValue:
        """The value with what comes of the comparison; as it is where there is nothing to compare it with.

        Where the test fails meanwhile, that is what came of it.
        """
        rulings = PairRulings(gathered, self._book)
        beside = rulings.trusted(value)
        if not beside:
            return value
        comparison = Comparison(known=rulings.reached(beside))
        for pair in cycle(beside):
            reference = await self._value(pair, gathered, {})
            if reference is None or reference.bandwidth_mb_s is None:
                return value
            comparison = replace(comparison, trusted=(*comparison.trusted, reference.bandwidth_mb_s))
            if comparison.is_over:
                break
            again = await self._value(value.pair, gathered, {})
            if again is None or again.bandwidth_mb_s is None:
                return again or value
            comparison = replace(comparison, questioned=(*comparison.questioned, again.bandwidth_mb_s))
        return replace(value, compared=comparison, beside=beside)

    async def _value(self, pair: Pair, gathered: Gathered, enough: Mapping[str, float]) -> PairValue | None:
        """What the test of a pair gave; None where it was not made."""
        if not (gathered.excuses.keys() | self.excuses.keys()).isdisjoint(pair.nodes):
            return None
        transport = cast("Transport", gathered.transport(pair))
        try:
            answer = await self._asking.exchange(pair, transport, enough)
        except NotReachedError as error:
            return PairValue(pair, problem=f"{gathered.name(error.node)}: {error.problem}", transport=transport)
        except ExcusedError as error:
            self.excuses |= error.excuses
            return None
        if answer.problem or not answer.figures:
            return PairValue(pair, problem=answer.problem or "no result", transport=transport)
        problem = pretended_problem(pair, self._subject.injections, self._chance)
        if problem:
            return PairValue(pair, problem=problem, transport=transport)
        return self._measured(pair, answer, transport)

    def _measured(self, pair: Pair, answer: TestAnswer, transport: Transport) -> PairValue:
        part = changed_bandwidth(pair, self._subject.injections)
        bandwidth, latency = answer.figures["bandwidthMbS"] * part, answer.figures["latencyUs"] / part
        return PairValue(pair, bandwidth, latency, transport=transport, rails=answer.rails)
