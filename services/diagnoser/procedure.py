"""One diagnosis from the first probe to the last test: asks agents, and gives what was gathered to be judged.

Order: every machine is probed; nodes with a problem once more, suspects of the ledger some times more. Nodes whose
earlier pass holds are done then. The others have their memory tested, and are searched in pairs, a round at a time, as
the search wants it; where nodes with a valid pass are among them, a few of these are partners. Last, all that is sound
makes an all-reduce together. A missing answer is a result. Whoever asked says before each step whether it is still
wanted; the workers of the session are ended however it goes.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from services.diagnoser.domain.beliefs import Belief
from services.diagnoser.domain.book import Book
from services.diagnoser.domain.examination import Examination, Gathered, PairValue, search_of
from services.diagnoser.domain.injection import Injection, changed_bandwidth, changed_reading, pretends_failure
from services.diagnoser.domain.pairing import Pair, waves
from services.diagnoser.domain.verdict import Floors, Reading
from shared.clock import Clock
from shared.diagnosis_wire import Peer, TestAnswer, TestName, TestRequest

LIMIT_S: Final = 80.0
TEST_S: Final = 10.0
RING_MAX: Final = 64
SUSPECT_PROBES: Final = 5
_FEWEST_PARTNERS: Final = 2

StillWanted = Callable[[], Awaitable[bool]]


class Agents(Protocol):
    """The node agents of all machines."""

    async def probe(self, machine: str, nodes: Sequence[str], places: Mapping[str, bool]) -> dict[str, Reading]:
        """Readings of the machine's nodes that answered in time."""
        ...

    async def test(self, machine: str, request: TestRequest) -> TestAnswer:
        """What came of the test; where no answer came in time, that is the problem."""
        ...

    async def cancel(self, machine: str, session: str) -> None:
        """Have the workers of the session ended."""
        ...


@dataclass(frozen=True, slots=True)
class Subject:
    """What is to be diagnosed: nodes with their machines, the devices each is to give, directories that are needed.

    `in_use` are nodes on which others work: they are looked at, and not put under load. Those that are `settled` were
    tested for the same purpose a moment ago: they are partners of the others at most.
    """

    session: str
    nodes: tuple[str, ...]
    machines: Mapping[str, str]
    devices: Mapping[str, Collection[str]] = field(default_factory=dict)
    places: Mapping[str, bool] = field(default_factory=dict)
    in_use: frozenset[str] = frozenset()
    injections: tuple[Injection, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    thorough: bool = False
    settled: frozenset[str] = frozenset()

    @property
    def injected(self) -> tuple[str, ...]:
        """The pretended faults as they were written."""
        return tuple(each.text for each in self.injections)

    def machine(self, node: str) -> str:
        """The machine whose agent answers for the node."""
        return self.machines.get(node, node)


class NotWantedError(Exception):
    """Whoever asked for the diagnosis does not wait for it any more."""


class Procedure:
    """Runs diagnoses."""

    def __init__(self, agents: Agents, book: Book, floors: Floors, clock: Clock, chance: Callable[[], float]) -> None:
        self._agents = agents
        self._book = book
        self._floors = floors
        self._clock = clock
        self._chance = chance

    async def run(self, subject: Subject, still_wanted: StillWanted) -> Examination:
        """The examined whole; raises NotWantedError, and BusUnavailableError while NATS is away."""
        run = _Run(subject, self._agents, self._book, self._floors, self._chance, still_wanted)
        try:
            return await run.examined(self._book.known(subject.nodes, self._clock.now()), self.fresh(subject))
        finally:
            await run.close()

    def fresh(self, subject: Subject) -> tuple[str, ...]:
        """Nodes that have no pass that holds."""
        now = self._clock.now()
        unsettled = (node for node in subject.nodes if node not in subject.settled)
        return tuple(node for node in unsettled if subject.thorough or not self._book.is_valid(node, now))


class _Run:
    """What is gathered in one diagnosis so far."""

    def __init__(
        self,
        subject: Subject,
        agents: Agents,
        book: Book,
        floors: Floors,
        chance: Callable[[], float],
        still_wanted: StillWanted,
    ) -> None:
        self._subject = subject
        self._agents = agents
        self._book = book
        self._floors = floors
        self._chance = chance
        self._still_wanted = still_wanted
        self._gathered = Gathered(subject.nodes, subject.machines, subject.devices, {}, names=subject.names)

    async def examined(self, known: Mapping[str, Belief], fresh: Sequence[str]) -> Examination:
        """Everything in its order; a part that takes too long is left with what it gave by then."""
        await self._probe_all()
        await self._probe_again(self._with_problems())
        for _ in range(SUSPECT_PROBES - 1):
            suspects = [node for node in self._subject.nodes if node in known and known[node].is_suspect]
            await self._probe_again([node for node in suspects if node not in self._with_problems()])
        tested = self._to_test(fresh)
        if tested:
            self._gathered = replace(self._gathered, known=known, tested=tested)
            with suppress(TimeoutError):
                async with asyncio.timeout(LIMIT_S):
                    await self._put_under_load(tested)
        return self._examination()

    async def close(self) -> None:
        """End the workers."""
        machines = sorted({self._subject.machine(node) for node in self._gathered.tested})
        await asyncio.gather(*(self._agents.cancel(machine, self._subject.session) for machine in machines))

    def _examination(self) -> Examination:
        return Examination(self._gathered, self._book, self._floors)

    # --- facts -------------------------------------------------------------------------------------------------------

    async def _probe_all(self) -> None:
        found = await self._probed(self._subject.nodes)
        self._gathered = replace(self._gathered, readings={node: (found.get(node),) for node in self._subject.nodes})

    def _with_problems(self) -> list[str]:
        """Nodes with something wrong at the first look."""
        examination = self._examination()
        return [node for node in self._subject.nodes if examination.problems_at(node, 0)]

    async def _probe_again(self, nodes: Sequence[str]) -> None:
        """What was wrong once may have been the moment, and what was wrong before may not show at once."""
        if nodes:
            await self._check()
            found = await self._probed(nodes)
            again = {node: (*self._gathered.readings[node], found.get(node)) for node in nodes}
            self._gathered = replace(self._gathered, readings={**self._gathered.readings, **again})

    async def _probed(self, nodes: Sequence[str]) -> dict[str, Reading]:
        nodes_of: defaultdict[str, list[str]] = defaultdict(list)
        for node in nodes:
            nodes_of[self._subject.machine(node)].append(node)
        asked = (self._agents.probe(machine, own, self._subject.places) for machine, own in nodes_of.items())
        readings = {node: reading for answer in await asyncio.gather(*asked) for node, reading in answer.items()}
        injections = self._subject.injections
        return {node: changed_reading(node, reading, injections) for node, reading in readings.items()}

    def _to_test(self, fresh: Sequence[str]) -> tuple[str, ...]:
        """Sound nodes without a pass that holds, and some with one as their partners; none that others work on."""
        examination = self._examination()
        free = [node for node in self._subject.nodes if node not in self._subject.in_use]
        sound = [node for node in free if not examination.finding(node).problems]
        wanted = [node for node in sound if node in fresh]
        partners = [node for node in sound if node not in fresh][: max(len(wanted), _FEWEST_PARTNERS)]
        return (*wanted, *partners) if wanted else ()

    # --- load --------------------------------------------------------------------------------------------------------

    async def _put_under_load(self, nodes: tuple[str, ...]) -> None:
        await self._test_memory(nodes)
        able = tuple(node for node in nodes if len(self._gathered.worker_problems.get(node, ())) <= 1)
        self._gathered = replace(self._gathered, paired=able)
        if len(able) > 1:
            await self._search()
            search = search_of(self._gathered, self._book)
            await self._reduce([node for node in able if search.colour(node) == "green"])

    async def _test_memory(self, nodes: Sequence[str]) -> None:
        """Nodes of one machine one after the other; those that look slow once more."""
        await self._check()
        await self._take_memory(nodes)
        examination = self._examination()
        again = [node for node in nodes if examination.looks_slow(node) or node in self._gathered.worker_problems]
        if again:
            await self._take_memory(again)

    async def _take_memory(self, nodes: Sequence[str]) -> None:
        nodes_of: defaultdict[str, list[str]] = defaultdict(list)
        for node in nodes:
            nodes_of[self._subject.machine(node)].append(node)

        async def one_machine(own: list[str]) -> list[tuple[str, TestAnswer]]:
            return [(node, await self._test(node, "memory")) for node in own]

        answers = [each for found in await asyncio.gather(*map(one_machine, nodes_of.values())) for each in found]
        memory, problems = dict(self._gathered.memory), dict(self._gathered.worker_problems)
        for node, answer in answers:
            if "memoryGbS" in answer.figures:
                memory[node] = (*memory.get(node, ()), answer.figures["memoryGbS"])
            else:
                problems[node] = (*problems.get(node, ()), answer.problem or "no result of the memory test")
        self._gathered = replace(self._gathered, memory=memory, worker_problems=problems)

    async def _search(self) -> None:
        while pairs := search_of(self._gathered, self._book).next_pairs():
            await self._check()
            values: list[PairValue] = []
            for wave in waves(pairs, self._subject.machines):
                values += await asyncio.gather(*map(self._exchange, wave))
            self._gathered = replace(self._gathered, rounds=(*self._gathered.rounds, tuple(values)))

    async def _exchange(self, pair: Pair) -> PairValue:
        served = await self._test(pair.second, "serve")
        if served.served is None:
            name = self._gathered.name(pair.second)
            return PairValue(pair, problem=f"{name}: {served.problem or 'it does not listen'}")
        answer = await self._test(pair.first, "exchange", (served.served,))
        problem = answer.problem or answer.problems.get(pair.second, "")
        figures = answer.peers.get(pair.second, {})
        if problem or not figures:
            return PairValue(pair, problem=problem or "no result")
        part = changed_bandwidth(pair, self._subject.injections)
        if pretends_failure(pair, self._subject.injections, self._chance):
            return PairValue(pair, problem="the exchange failed")
        return PairValue(pair, figures["bandwidthMbS"] * part, figures["latencyUs"] / part)

    async def _reduce(self, nodes: Sequence[str]) -> None:
        """An all-reduce of all that is sound; the same twice, where the first goes wrong."""
        ring = await self._ring(nodes[:RING_MAX])
        for attempt in ("first", "second"):
            await self._check()
            asked = (self._test(peer.node, "reduce", ring, round_name=attempt) for peer in ring)
            answers = dict(zip((peer.node for peer in ring), await asyncio.gather(*asked), strict=True))
            wrong = {node: f"the all-reduce: {answer.problem}" for node, answer in answers.items() if answer.problem}
            self._gathered = replace(self._gathered, gang_problems=wrong)
            if not wrong:
                return

    async def _ring(self, nodes: Sequence[str]) -> tuple[Peer, ...]:
        answers = await asyncio.gather(*(self._test(node, "serve") for node in nodes))
        ring = tuple(answer.served for answer in answers if answer.served is not None)
        return ring if len(ring) > 1 else ()

    async def _test(self, node: str, test: TestName, peers: tuple[Peer, ...] = (), round_name: str = "") -> TestAnswer:
        request = TestRequest(self._subject.session, node, test, TEST_S, peers, round_name)
        return await self._agents.test(self._subject.machine(node), request)

    async def _check(self) -> None:
        if not await self._still_wanted():
            raise NotWantedError
