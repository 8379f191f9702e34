"""How agents are asked for the tests of one diagnosis: which devices, partners, transport and times go with each."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, Protocol

from services.diagnoser.domain.budget import DEEP_S
from services.diagnoser.domain.injection import Injection
from services.diagnoser.domain.pairing import Pair
from services.diagnoser.domain.readings import Reading
from services.diagnoser.domain.stages import EVERYTHING, Profile
from shared.diagnosis_wire import Peer, TestAnswer, TestName, TestRequest, Transport

ASKED_S: Final = 5.0


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
    tested for the same purpose a moment ago: they are partners of the others at most. `profiles` say which stages a
    node gets, `leaves` which switch it is on, `deep` the level of NVIDIA's own tests.
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
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    settled: frozenset[str] = frozenset()
    leaves: Mapping[str, str] = field(default_factory=dict)
    deep: int = 0

    @property
    def injected(self) -> tuple[str, ...]:
        """The pretended faults as they were written."""
        return tuple(each.text for each in self.injections)

    def machine(self, node: str) -> str:
        """The machine whose agent answers for the node."""
        return self.machines.get(node, node)

    def profile(self, node: str) -> Profile:
        """Which stages the node gets, and its floors."""
        return self.profiles.get(node, EVERYTHING)


class NotReachedError(Exception):
    """A node does not say where others reach it."""

    def __init__(self, node: str, problem: str) -> None:
        super().__init__(problem)
        self.node = node
        self.problem = problem


class ExcusedError(Exception):
    """Nodes cannot make a test, and are not to blame; why, by node."""

    def __init__(self, excuses: Mapping[str, str]) -> None:
        super().__init__(*excuses.values())
        self.excuses = excuses


class Asking:
    """Asks for tests; `about` has what each node said when it began."""

    def __init__(self, subject: Subject, agents: Agents) -> None:
        self._subject = subject
        self._agents = agents
        self._rounds = count(1)
        self.about: dict[str, Mapping[str, str]] = {}

    def give(self, devices: Mapping[str, Collection[str]]) -> None:
        """From now on nodes are tested on these GPUs."""
        self._subject = replace(self._subject, devices=devices)

    def has_gpus(self, node: str) -> bool:
        """Whether the node is tested on GPUs."""
        return self.about.get(node, {}).get("transport") == "nccl"

    async def begin(self, node: str) -> TestAnswer:
        """Have the node's devices opened."""
        gpu = bool(self._subject.devices.get(node))
        answer = await self._ask(self._request(node, "begin", gpu=gpu))
        if not answer.problem and not answer.excuse:
            self.about[node] = answer.about
        return answer

    async def alone(self, node: str, test: TestName, enough: Mapping[str, float]) -> TestAnswer:
        """A test of each device of the node by itself."""
        return await self._ask(replace(self._request(node, test, gpu=self.has_gpus(node)), enough=enough))

    async def local(self, node: str, enough: Mapping[str, float]) -> TestAnswer:
        """All devices of the node together; raises NotReachedError or ExcusedError."""
        gpu, peers = self.has_gpus(node), await self.peers((node,))
        sizes = self._subject.profile(node).message_sizes(gpu=gpu)
        request = self._request(node, "local", gpu=gpu)
        return await self._ask(replace(request, enough=enough, sizes=sizes, peers=peers))

    async def link(self, node: str, ranks: tuple[int, int], peers: tuple[Peer, ...]) -> TestAnswer:
        """The way between two devices of the node, which meet at the peer that the node is itself."""
        return await self._ask(replace(self._request(node, "link", gpu=self.has_gpus(node)), ranks=ranks, peers=peers))

    async def deep(self, node: str, level: int) -> TestAnswer:
        """NVIDIA's own tests; level 0 asks whether they are there."""
        within_s = DEEP_S.get(level, ASKED_S)
        return await self._ask(replace(self._request(node, "deep", gpu=True), level=level, limit_s=within_s))

    async def peers(self, nodes: Sequence[str]) -> tuple[Peer, ...]:
        """Where others reach these nodes; raises NotReachedError or ExcusedError."""
        requests = (self._request(node, "serve", gpu=self.has_gpus(node)) for node in nodes)
        answers = await self._all_of(nodes, requests)
        found: list[Peer] = []
        for node, answer in zip(nodes, answers, strict=True):
            if answer.served is None:
                raise NotReachedError(node, answer.problem or "it does not listen")
            found.append(answer.served)
        return tuple(found)

    async def exchange(self, pair: Pair, transport: Transport, enough: Mapping[str, float]) -> TestAnswer:
        """The way between two nodes; raises NotReachedError or ExcusedError."""
        answers = await self._together("exchange", pair.nodes, transport, enough=enough)
        problem = next((answer.problem for answer in answers if answer.problem), "")
        return TestAnswer(problem=problem) if problem else answers[0]

    async def gang(self, nodes: Sequence[str], transport: Transport, sizes: tuple[int, ...]) -> dict[str, TestAnswer]:
        """Collectives of these nodes, of each all devices; raises NotReachedError or ExcusedError."""
        return dict(zip(nodes, await self._together("gang", nodes, transport, sizes=sizes), strict=True))

    async def _together(
        self,
        test: TestName,
        nodes: Sequence[str],
        transport: Transport,
        *,
        enough: Mapping[str, float] | None = None,
        sizes: tuple[int, ...] = (),
    ) -> list[TestAnswer]:
        """The same test of all of them at once, as one group; raises NotReachedError or ExcusedError."""
        peers, gpu = await self.peers(nodes), transport == "nccl"
        within = Profile.merged(map(self._subject.profile, nodes)).timing(test, gpu=gpu)
        first = replace(
            self._request(nodes[0], test, gpu=gpu),
            work_s=within.work_s,
            limit_s=within.limit_s,
            peers=peers,
            transport=transport,
            ranks_each=min(map(self._device_count, nodes)) if gpu else 1,
            sizes=sizes,
            enough=enough or {},
        )
        requests = (replace(first, node=node, devices=self._devices(node)) for node in nodes)
        return await self._all_of(nodes, requests)

    async def _all_of(self, nodes: Sequence[str], requests: Iterable[TestRequest]) -> list[TestAnswer]:
        """The answers of these nodes at once; raises ExcusedError, as those of the others are worth nothing then."""
        answers = await asyncio.gather(*map(self._ask, requests))
        excuses = {node: answer.excuse for node, answer in zip(nodes, answers, strict=True) if answer.excuse}
        if excuses:
            raise ExcusedError(excuses)
        return list(answers)

    async def _ask(self, request: TestRequest) -> TestAnswer:
        return await self._agents.test(self._subject.machine(request.node), request)

    def _request(self, node: str, test: TestName, *, gpu: bool) -> TestRequest:
        within = self._subject.profile(node).timing(test, gpu=gpu)
        return TestRequest(
            session=self._subject.session,
            node=node,
            test=test,
            limit_s=within.limit_s,
            work_s=within.work_s,
            begun=node in self.about,
            devices=self._devices(node),
            round=self._key(),
        )

    def _devices(self, node: str) -> tuple[str, ...]:
        return tuple(sorted(self._subject.devices.get(node, ())))

    def _key(self) -> str:
        """What no other test is called: what a group of old has left in a store must not be found by a new one."""
        return f"{self._subject.session}/{next(self._rounds)}"

    def _device_count(self, node: str) -> int:
        return max(len(self._subject.devices.get(node, ())), 1)
