"""The part of a diagnosis that puts nodes under load: devices, pairs, the whole gang.

Each node's devices are opened, and tested alone (compute, memory, the way to the host) and together. A test that finds
something wrong is made once more. Then nodes are searched in pairs, a round at a time, as the search wants it, and
those whose bandwidth is in question are compared with others; last, all that is sound makes collectives together. Nodes
of one machine are tested one after the other, others at the same time.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final, cast

from services.diagnoser.asking import Asking, ExcusedError, NotReachedError, Subject
from services.diagnoser.domain.book import Book
from services.diagnoser.domain.devices import WHOLE_NODE, Look, with_look
from services.diagnoser.domain.gang import halves, is_slow
from services.diagnoser.domain.gathered import GangValue, Gathered
from services.diagnoser.domain.pair_values import BEST_OF, PairRulings, search_of
from services.diagnoser.domain.pairing import Pair, waves
from services.diagnoser.domain.pretending import changed_gang, changed_look
from services.diagnoser.domain.search import SCREENING_ROUNDS
from services.diagnoser.domain.stages import STAGE_OF, Stage
from services.diagnoser.exchanges import Exchanges
from shared.diagnosis_wire import DeviceResult, TestAnswer, TestName, Transport

GANG_MAX: Final = 256
# After each round.
MOST_COMPARED: Final = 8
LATER_LOOKS: Final = 2
_OF_CPUS: Final[tuple[TestName, ...]] = ("compute", "memory")
_ALONE: Final[tuple[TestName, ...]] = ("compute", "memory", "hostDevice", "local", "link")


class Loading:
    """What is gathered under load so far; `check` raises where nobody waits for it any more."""

    def __init__(
        self,
        subject: Subject,
        asking: Asking,
        book: Book,
        chance: Callable[[], float],
        check: Callable[[], Awaitable[None]],
    ) -> None:
        self._subject = subject
        self._asking = asking
        self._book = book
        self._chance = chance
        self._check = check
        self._unfinished: frozenset[str] = frozenset()

    async def run(self, gathered: Gathered) -> None:
        """Everything in its order; what was gathered by then is in `gathered` also where this is ended."""
        self.gathered, self._unfinished = gathered, frozenset(gathered.tested)
        await self._begin(gathered.loaded)
        for test in _ALONE:
            await self._test_alone(test)
        self._unfinished = frozenset()
        able = self._able()
        partners = set(gathered.paired)
        paired = tuple(node for node in able if node in partners and self._gets(node, "pairs"))
        self.gathered = replace(self.gathered, paired=paired)
        if len(self.gathered.paired) > 1:
            await self._search()
        await self._look_later()
        search = search_of(self.gathered, self._book)
        green = [node for node in able if node not in search.nodes or search.colour(node) == "green"]
        await self._gang([node for node in green if self._gets(node, "gang")][:GANG_MAX])

    def cut_short(self, why: str) -> None:
        """Leave it at what was gathered: nodes whose own tests were not all made by then have an excuse."""
        unfinished = dict.fromkeys(self._unfinished.intersection(self._able()), f"tests were broken off: {why}")
        self.gathered = replace(self.gathered, cut_short=why).excused(unfinished)

    def _gets(self, node: str, stage: Stage) -> bool:
        return self._subject.profile(node).has(stage)

    def _able(self) -> tuple[str, ...]:
        """Nodes whose tests have given results, and that have no excuse."""
        problems = self.gathered.worker_problems
        return tuple(node for node in self.gathered.loaded if len(problems.get(node, ())) <= 1)

    # --- one node ----------------------------------------------------------------------------------------------------

    async def _begin(self, nodes: Sequence[str]) -> None:
        """Those that cannot begin are asked once more."""
        for _ in range(2):
            await self._check()
            missing = [node for node in nodes if node in self.gathered.loaded and node not in self._asking.about]
            answers = await asyncio.gather(*map(self._asking.begin, missing))
            for node, answer in zip(missing, answers, strict=True):
                self._take(node, "begin", answer)
        self.gathered = replace(self.gathered, about=dict(self._asking.about))

    async def _test_alone(self, test: TestName) -> None:
        """A test of single nodes; once more, where something is wrong with it."""
        tested = [node for node in self._able() if node in self.gathered.tested]
        nodes = [node for node in tested if self._gets(node, STAGE_OF[test]) and self._has_use(node, test)]
        if not nodes:
            return
        await self._look(test, nodes)
        devices = self.gathered.of_devices(self._book)
        failed = [node for node in nodes if test not in self.gathered.looks.get(node, {})]
        again = [node for node in nodes if node in failed or devices.looks_bad(node, test)]
        if again:
            await self._look(test, again)

    async def _look_later(self) -> None:
        """What CPUs do depends on what else runs there: those that look bad are looked at again a while later."""
        for test in _OF_CPUS * LATER_LOOKS:
            devices = self.gathered.of_devices(self._book)
            tested = [node for node in self._able() if node in self.gathered.tested and not self._asking.has_gpus(node)]
            bad = [node for node in tested if devices.looks_bad(node, test)]
            if bad:
                await self._look(test, bad)

    def _has_use(self, node: str, test: TestName) -> bool:
        """Without PyTorch only memory is tested; what lies between host and device, or devices, may not be there."""
        about = self.gathered.about.get(node, {})
        if about.get("transport", "tcp") == "tcp":
            return test == "memory"
        if test in {"local", "link"}:
            return self._device_count(node) > 1 and (test == "local" or self._asking.has_gpus(node))
        return test != "hostDevice" or self._asking.has_gpus(node)

    async def _look(self, test: TestName, nodes: Sequence[str]) -> None:
        await self._check()
        nodes_of: defaultdict[str, list[str]] = defaultdict(list)
        for node in nodes:
            nodes_of[self._subject.machine(node)].append(node)

        devices = self.gathered.of_devices(self._book)

        async def one_machine(own: list[str]) -> None:
            for node in own:
                if node not in self.gathered.excuses:
                    self._take(node, test, await self._tested(node, test, devices.enough(node, test)))

        await asyncio.gather(*map(one_machine, nodes_of.values()))

    async def _tested(self, node: str, test: TestName, enough: Mapping[str, float]) -> TestAnswer:
        if test == "deep":
            return await self._asking.deep(node, self._subject.deep)
        try:
            if test == "local":
                answer = await self._asking.local(node, enough)
                return replace(answer, devices={WHOLE_NODE: DeviceResult(answer.figures)})
            return await (self._links(node) if test == "link" else self._asking.alone(node, test, enough))
        except NotReachedError as error:
            return TestAnswer(problem=error.problem)
        except ExcusedError as error:
            return TestAnswer(excuse=error.excuses[node])

    async def _links(self, node: str) -> TestAnswer:
        """Each pair of the node's devices, those that share none at the same time."""
        names, peers = sorted(self._subject.devices.get(node, ())), await self._asking.peers((node,))

        async def link(pair: Pair) -> tuple[str, DeviceResult]:
            answer = await self._asking.link(node, (names.index(pair.first), names.index(pair.second)), peers)
            if answer.excuse:
                raise ExcusedError({node: answer.excuse})
            figures = {name: value for name, value in answer.figures.items() if name == "bandwidthMbS"}
            return f"{pair.first} to {pair.second}", DeviceResult(figures, problem=answer.problem)

        found: dict[str, DeviceResult] = {}
        for wave in waves([Pair.of(*each) for each in combinations(names, 2)], {}):
            found |= await asyncio.gather(*map(link, wave))
        return TestAnswer(devices=found)

    def _take(self, node: str, test: TestName, answer: TestAnswer) -> None:
        """Keep what a test of one node gave."""
        if answer.excuse:
            self.gathered = self.gathered.excused({node: answer.excuse})
        elif answer.problem:
            problems = dict(self.gathered.worker_problems)
            problems[node] = (*problems.get(node, ()), answer.problem)
            self.gathered = replace(self.gathered, worker_problems=problems)
        elif test != "begin":
            look: Look = changed_look(node, test, answer.devices, self._subject.injections)
            self.gathered = replace(self.gathered, looks=with_look(self.gathered.looks, node, test, look))

    # --- pairs -------------------------------------------------------------------------------------------------------

    async def _search(self) -> None:
        exchanges = Exchanges(self._subject, self._asking, self._book, self._chance)
        while pairs := search_of(self.gathered, self._book).next_pairs():
            await self._check()
            values = await exchanges.values(pairs, self.gathered)
            rounds = (*self.gathered.rounds, values)
            self.gathered = replace(self.gathered, rounds=rounds).excused(exchanges.excuses)
            if len(self.gathered.rounds) <= SCREENING_ROUNDS:
                await self._repeat(exchanges)
            await self._compare(exchanges)

    async def _repeat(self, exchanges: Exchanges) -> None:
        """Test those again whose value may be low by chance."""
        for _ in range(BEST_OF - 1):
            low = {value.pair: value for value in PairRulings(self.gathered, self._book).to_repeat()}
            await self._check()
            for again in await exchanges.values(tuple(low), self.gathered, again=True):
                value = low[again.pair]
                self.gathered = self.gathered.with_value(value, value.better(again))
            self.gathered = self.gathered.excused(exchanges.excuses)

    async def _compare(self, exchanges: Exchanges) -> None:
        """Measure those in turns with others that are in question, the slowest first."""
        for value in PairRulings(self.gathered, self._book).in_question()[:MOST_COMPARED]:
            await self._check()
            compared = await exchanges.compared(value, self.gathered)
            self.gathered = self.gathered.with_value(value, compared).excused(exchanges.excuses)

    # --- all ---------------------------------------------------------------------------------------------------------

    async def _gang(self, nodes: Sequence[str]) -> None:
        """Collectives of all that is sound; once more, where they go wrong or are slow; then where they are."""
        if len(nodes) < 2:
            return
        value = await self._collective(nodes)
        if value is not None and (value.problems or is_slow(value, self.gathered, self._book)):
            value = await self._collective(nodes)
        if value is None:
            await self._gang([node for node in nodes if node not in self.gathered.excuses])
            return
        wrong = {node: f"the whole gang: {problem}" for node, problem in value.problems.items()}
        self.gathered = replace(self.gathered, gang=value, gang_doubts=wrong)
        if not wrong and is_slow(value, self.gathered, self._book):
            slow = await self._slow_leaf(nodes, sorted({self._subject.leaves.get(node, "") for node in nodes}))
            self.gathered = replace(self.gathered, gang_doubts=slow)

    async def _slow_leaf(self, nodes: Sequence[str], leaves: Sequence[str]) -> dict[str, str]:
        """Which nodes make the collectives of all slow, as far as halving the leaves tells; none with one leaf."""
        if len(leaves) < 2:
            return {}
        for half in halves(leaves):
            inside = [node for node in nodes if self._subject.leaves.get(node, "") in half]
            value = await self._collective(inside) if len(inside) > 1 else None
            if value is not None and (value.problems or is_slow(value, self.gathered, self._book)):
                deeper = await self._slow_leaf(inside, half)
                return deeper or dict.fromkeys(inside, f"collectives are slow among leaf {', '.join(half)}")
        return {}

    async def _collective(self, nodes: Sequence[str]) -> GangValue | None:
        """What the collectives of these nodes gave; None where one of them has an excuse."""
        await self._check()
        kinds = {self.gathered.about.get(node, {}).get("transport", "tcp") for node in nodes}
        transport = cast("Transport", kinds.pop() if len(kinds) == 1 else "tcp")
        sizes = self._subject.profile(nodes[0]).message_sizes(gpu=transport == "nccl")
        try:
            answers = await self._asking.gang(nodes, transport, sizes)
        except NotReachedError as error:
            return GangValue(tuple(nodes), transport, problems={error.node: error.problem})
        except ExcusedError as error:
            self.gathered = self.gathered.excused(error.excuses)
            return None
        answers = changed_gang(answers, self._subject.injections)
        problems = {node: each.problem for node, each in answers.items() if each.problem}
        told = [each.figures for each in answers.values() if each.figures]
        names = set.intersection(*(set(each) for each in told)) if told else set()
        figures = {name: min(each[name] for each in told) for name in names}
        return GangValue(tuple(nodes), transport, figures, problems)

    # --- deep --------------------------------------------------------------------------------------------------------

    async def deep(self, gathered: Gathered) -> None:
        """NVIDIA's own tests on every node that has GPUs."""
        self.gathered = gathered
        nodes = [node for node in gathered.tested if self._subject.devices.get(node)]
        await self._look("deep", nodes)

    def _device_count(self, node: str) -> int:
        return len(next(iter(self.gathered.looks.get(node, {}).values()), ({},))[-1])
