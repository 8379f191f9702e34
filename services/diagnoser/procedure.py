"""One diagnosis from the first probe to the last test: asks agents, and gives what was gathered to be judged.

Order: every machine is probed; nodes with a problem once more, suspects of the ledger some times more. Nodes whose
earlier pass holds are done then, where they passed as this gang, too. The others are put under load (`loading`), and
with them those with a pass: as partners in pairs and in the gang, not by themselves. A missing answer is a result.
Whoever asked says before each step whether it is still wanted; the workers of the session are ended however it goes.
Looks and tests together end when the time is up that was told for them (`domain.budget`), in a search, too.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from services.diagnoser.asking import Agents, Asking, Subject
from services.diagnoser.domain.beliefs import Belief
from services.diagnoser.domain.book import Book
from services.diagnoser.domain.budget import LOOKS_S, Plan, left_s
from services.diagnoser.domain.examination import Examination
from services.diagnoser.domain.facts import Floors
from services.diagnoser.domain.gathered import Gathered
from services.diagnoser.domain.given import devices_given
from services.diagnoser.domain.injection import check_devices
from services.diagnoser.domain.passes import stages_of_devices
from services.diagnoser.domain.pretending import changed_reading, is_silent
from services.diagnoser.domain.readings import Reading
from services.diagnoser.domain.stages import Profile, stages_of_gang
from services.diagnoser.loading import Loading
from services.diagnoser.warming import Warming
from shared.clock import Clock
from shared.node_labels import LEAF_LABEL

SUSPECT_PROBES: Final = 5
_FEWEST_PARTNERS: Final = 2

StillWanted = Callable[[], Awaitable[bool]]


class NotWantedError(Exception):
    """Whoever asked for the diagnosis does not wait for it any more."""


class Procedure:
    """Runs diagnoses; for the answer to a look `look_s` are waited at most."""

    def __init__(
        self,
        agents: Agents,
        book: Book,
        floors: Floors,
        clock: Clock,
        chance: Callable[[], float],
        look_s: float = 30.0,
    ) -> None:
        self._agents = agents
        self._look_s = look_s
        self._book = book
        self._floors = floors
        self._clock = clock
        self._chance = chance

    async def run(self, subject: Subject, still_wanted: StillWanted) -> Examination:
        """The examined whole; raises NotWantedError, and BusUnavailableError while NATS is away.

        NoSuchDeviceError where a fault is pretended of a device that is not there.
        """
        leaves = {node: self._leaf(node) for node in subject.nodes}
        located = replace(subject, leaves={**leaves, **subject.leaves})
        run = _Run(located, self._agents, self._book, self._floors, self._chance, still_wanted)
        try:
            known = self._book.known(subject.nodes, self._clock.now())
            return await run.examined(known, self.fresh, self._met)
        finally:
            await run.close()

    async def deep_refusals(self, subject: Subject) -> dict[str, str]:
        """Why nodes cannot have NVIDIA's own tests, where they cannot."""
        asking = Asking(subject, self._agents)
        without = {node: "it has no GPU" for node in subject.nodes if not subject.devices.get(node)}
        others = [node for node in subject.nodes if node not in without]
        answers = await asyncio.gather(*(asking.deep(node, 0) for node in others))
        found = {node: answer.problem for node, answer in zip(others, answers, strict=True) if answer.problem}
        return without | found

    def _leaf(self, node: str) -> str:
        page = self._book.pages.get(node)
        return page.reported.labels.get(LEAF_LABEL, "") if page and page.reported else ""

    def plan(self, subject: Subject) -> Plan:
        """What a diagnosis of the subject is going to do."""
        return Plan(
            subject.nodes,
            self.fresh(subject),
            subject.machines,
            subject.devices,
            Profile.merged(map(subject.profile, subject.nodes)),
            subject.deep,
            self.meets(subject),
            self._look_s,
        )

    def fresh(self, subject: Subject) -> tuple[str, ...]:
        """Nodes that have no pass that holds."""
        now = self._clock.now()
        unsettled = (node for node in subject.nodes if node not in subject.settled)
        return tuple(node for node in unsettled if subject.thorough or not self._covers(node, subject, now))

    def meets(self, subject: Subject) -> bool:
        """Whether the nodes are to be tested together."""
        return bool(self.fresh(subject)) or not self._met(subject).as_gang(subject.nodes)

    def _covers(self, node: str, subject: Subject, now: datetime) -> bool:
        stages = stages_of_devices(subject.profile(node).node_stages, subject.devices.get(node, ()))
        return self._book.covers(node, stages, now)

    def _met(self, subject: Subject) -> Met:
        now = self._clock.now()
        if subject.thorough:
            return Met()

        def as_gang(nodes: Sequence[str]) -> bool:
            stages = stages_of_gang(nodes, subject.profile, subject.devices)
            return not stages or self._book.has_met(nodes, stages, now)

        with_gpus = {node for node in subject.nodes if subject.devices.get(node)}
        return Met(self._book.settled_links(subject.nodes, with_gpus, now), as_gang)


@dataclass(frozen=True, slots=True)
class Met:
    """Which nodes were tested with each other lately: links that are fine, and whether nodes passed as a gang."""

    links: frozenset[str] = frozenset()
    as_gang: Callable[[Sequence[str]], bool] = lambda _nodes: False


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
        self._began_s = asyncio.get_running_loop().time()
        self._asking = Asking(subject, agents)
        self._warming = Warming(self._asking)
        self._gathered = Gathered(
            subject.nodes,
            subject.machines,
            subject.devices,
            {},
            names=subject.names,
            profiles=subject.profiles,
            leaves=subject.leaves,
            in_use=subject.in_use,
            injections=subject.injections,
        )

    async def examined(
        self,
        known: Mapping[str, Belief],
        fresh: Callable[[Subject], Sequence[str]],
        met: Callable[[Subject], Met],
    ) -> Examination:
        """Everything in its order; a part that takes too long is left with what it gave by then."""
        idle = (node for node in fresh(self._subject) if node not in self._subject.in_use)
        self._warming.begin(node for node in idle if not self._has_gpus(node))
        await self._probe_all()
        self._find_devices()
        await self._probe_again(self._with_problems())
        for _ in range(SUSPECT_PROBES - 1):
            if self._took_s() > LOOKS_S:
                break
            suspects = [node for node in self._subject.nodes if node in known and known[node].is_suspect]
            await self._probe_again([node for node in suspects if node not in self._with_problems()])
        self._gathered = replace(self._gathered, known=known)
        self._choose(fresh(self._subject), met(self._subject))
        if self._gathered.loaded:
            await self._put_under_load()
        return self._examination()

    async def close(self) -> None:
        """End the workers."""
        await self._warming.close()
        begun = (*self._gathered.loaded, *self._warming.nodes, *self._asking.about)
        machines = sorted(set(map(self._subject.machine, begun)))
        await asyncio.gather(*(self._agents.cancel(machine, self._subject.session) for machine in machines))

    def _examination(self) -> Examination:
        return Examination(self._gathered, self._book, self._floors)

    def _plan(self) -> Plan:
        subject, tested = self._subject, self._gathered.tested
        return Plan(subject.nodes, tested, subject.machines, subject.devices, meets=len(self._gathered.loaded) > 1)

    # --- facts -------------------------------------------------------------------------------------------------------

    async def _probe_all(self) -> None:
        found = await self._probed(self._subject.nodes)
        self._gathered = replace(self._gathered, readings={node: (found.get(node),) for node in self._subject.nodes})

    def _find_devices(self) -> None:
        """Where nobody could say beforehand which GPUs a node is to give, it is known now."""
        found = {node: each[-1] for node, each in self._gathered.readings.items() if each[-1] is not None}
        devices = devices_given(self._subject.devices, found)
        self._asking.give(devices)
        self._gathered = replace(self._gathered, devices=devices, wanted=self._subject.devices)
        self._subject = replace(self._subject, devices=devices)

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
        check_devices(injections, {node: reading.measurement.devices for node, reading in readings.items()})
        heard = {node: reading for node, reading in readings.items() if not is_silent(node, injections)}
        return {node: changed_reading(node, reading, injections) for node, reading in heard.items()}

    def _choose(self, fresh: Sequence[str], met: Met) -> None:
        """Who is put under load: sound nodes without a pass that holds, and all sound ones that never met as a gang.

        In pairs fresh nodes get some of the others as their partners. Nodes on which others work are left alone.
        """
        examination = self._examination()
        without_problem = [node for node in self._subject.nodes if not examination.finding(node).problems]
        sound = tuple(node for node in without_problem if node not in self._subject.in_use)
        spared = self._subject.in_use & set(without_problem) & set(fresh)
        tested = tuple(node for node in sound if node in fresh)
        others = [node for node in sound if node not in fresh]
        partners = others[: max(len(tested), _FEWEST_PARTNERS)] if tested else others
        is_new = bool(tested) or (len(sound) > 1 and not met.as_gang(sound))
        loaded = (*tested, *others) if is_new else ()
        paired = (*tested, *partners) if is_new else ()
        self._gathered = replace(self._gathered, tested=tested, loaded=loaded, paired=paired)
        self._gathered = replace(self._gathered, settled=met.links, spared=spared)

    def _took_s(self) -> float:
        return asyncio.get_running_loop().time() - self._began_s

    async def _check(self) -> None:
        if not await self._still_wanted():
            raise NotWantedError

    def _has_gpus(self, node: str) -> bool:
        return bool(self._subject.devices.get(node))

    async def _put_under_load(self) -> None:
        loading = Loading(self._subject, self._asking, self._book, self._chance, self._check)
        within_s = left_s(self._plan(), self._took_s())
        loading.gathered = self._gathered
        try:
            try:
                async with asyncio.timeout(within_s):
                    await self._warming.ready(self._gathered.loaded)
                    await loading.run(self._gathered)
            except TimeoutError:
                loading.cut_short(f"their time, {within_s:.0f} s, was up")
            if self._subject.deep:
                await loading.deep(loading.gathered)
        finally:
            self._gathered = loading.gathered
