"""The ledger of node health: what is believed of parts, what nodes gave before, and whose pass still holds. Pure.

It is the fold of the events of NODES. A diagnosis leaves the beliefs in the parts that it tested, which fade from then
on, and its figures, which later ones are compared with. A pass holds for a day, unless the node is suspect or
something was heard of it since: a suspicion after a failed job, a rank that held others up, an order, a state, other
hardware. What looked slow in a job counts once for each job. A diagnosis with pretended faults changes nothing. What
was believed of a node is void when an admin restores it, or wants it back.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from services.diagnoser.domain.beliefs import LINK_IS_BAD, NODE_IS_BAD, Belief
from services.diagnoser.domain.health import suspicion
from services.diagnoser.domain.pairing import Pair, is_link
from services.diagnoser.domain.passes import Passes, gang_name, holds, stages_of_devices, way_to
from services.diagnoser.domain.stages import NODE_STAGES
from shared.events import (
    NodeChanged,
    NodeDiagnosed,
    NodeJudged,
    NodeLagged,
    NodeMarked,
    NodeRecalled,
    NodeReported,
    NodeSuspected,
    PairMeasured,
)
from shared.ids import node_of_subject
from shared.jobs import Recorded
from shared.node_labels import MACHINE_LABEL

# What carries data from GPU to GPU.
_OF_GPUS: Final = "nccl"
_FLEET_VALUES: Final = 256
_OWN_VALUES: Final = 16
_HOUR_S: Final = 3600


@dataclass(frozen=True, slots=True)
class Remembered:
    """A belief, and when it was formed."""

    belief: Belief
    at: datetime

    def now(self, now: datetime) -> Belief:
        """What is left of it."""
        return self.belief.faded((now - self.at).total_seconds() / _HOUR_S)


@dataclass(slots=True)
class NodePage:
    """What is known of one node."""

    reported: NodeReported | None = None
    judged: NodeJudged | None = None
    judged_at: datetime | None = None
    suspected_by: NodeSuspected | NodeLagged | None = None
    diagnosed: NodeDiagnosed | None = None
    diagnosed_at: datetime | None = None
    suspected_at: datetime | None = None
    passed_at: datetime | None = None
    passes: Passes = field(default_factory=Passes)
    lagged_in: str = ""
    wanted_back_at: datetime | None = None
    state: str = ""
    own: dict[str, deque[float]] = field(default_factory=dict)

    def void(self) -> None:
        """No pass of it holds any more."""
        self.passed_at, self.passes = None, Passes()

    @property
    def has_new_sign(self) -> bool:
        """Whether a job spoke against it since it was last judged."""
        if self.suspected_at is None:
            return False
        return self.judged_at is None or self.judged_at <= self.suspected_at


@dataclass(slots=True)
class Touched:
    """What events have changed: nodes, parts, and values of the fleet by kind and figure."""

    nodes: set[str] = field(default_factory=set)
    parts: set[str] = field(default_factory=set)
    fleet: set[tuple[str, str]] = field(default_factory=set)


class Book:
    """The ledger; `take` brings it forward, and `touched` says what that has changed."""

    def __init__(self) -> None:
        self.pages: defaultdict[str, NodePage] = defaultdict(NodePage)
        self.touched = Touched()
        self._parts: dict[str, Remembered] = {}
        self._fleet: dict[tuple[str, str], deque[float]] = {}

    def take(self, recorded: Recorded) -> None:
        """One more event of NODES."""
        node, at = node_of_subject(recorded.subject), recorded.event.time
        page = self.pages[node]
        self.touched.nodes.add(node)
        match recorded.event.data:
            case NodeDiagnosed() as part if not part.injected:
                self._diagnosed(page, part, at)
            case NodeSuspected() as failed:
                self._remember(node, self.belief(node, at).after(fails=1), at)
                page.suspected_at, page.suspected_by = at, failed
                page.void()
            case NodeLagged(job=job) as lagged if job != page.lagged_in:
                self._remember(node, self.belief(node, at).doubted(), at)
                page.suspected_at, page.suspected_by, page.lagged_in = at, lagged, job
                page.void()
            case NodeReported() as reported:
                self._reported(page, reported)
            case NodeJudged() as judged:
                page.judged, page.judged_at = judged, at
            case NodeChanged() as changed:
                page.state = changed.state
            case NodeMarked() | NodeRecalled() as order:
                page.void()
                self._ordered(page, order, at)

    def belief(self, part: str, now: datetime) -> Belief:
        """What is believed of the part now."""
        known = self._parts.get(part)
        return known.now(now) if known else Belief(prior=LINK_IS_BAD if is_link(part) else NODE_IS_BAD)

    def known(self, nodes: Iterable[str], now: datetime) -> dict[str, Belief]:
        """What is believed of these nodes, and of the links and devices between and on them."""
        wanted = set(nodes)
        parts = (part for part in self._parts if set(part.partition("/")[0].split("--")) <= wanted)
        return {part: self.belief(part, now) for part in parts}

    def about(self, node: str, now: datetime) -> dict[str, Belief]:
        """What is believed of the node's devices, and of the links between it and others."""
        own = (part for part in self._parts if part != node and node in part.partition("/")[0].split("--"))
        return {part: self.belief(part, now) for part in own}

    def is_valid(self, node: str, now: datetime) -> bool:
        """Whether the node passed lately, and nothing was heard of it since."""
        page = self.pages.get(node)
        if page is None or page.passed_at is None or self.belief(node, now).is_suspect:
            return False
        return holds(page.passed_at, now)

    def machine(self, node: str) -> str:
        """The machine that the node is, or is a share of."""
        page = self.pages.get(node)
        return page.reported.labels.get(MACHINE_LABEL, node) if page and page.reported else node

    def covers(self, node: str, stages: Iterable[str], now: datetime) -> bool:
        """Whether a pass of the node holds, and covers these stages."""
        return self.is_valid(node, now) and self.pages[node].passes.covers(stages, now)

    def settled_links(self, nodes: Iterable[str], with_gpus: Container[str], now: datetime) -> frozenset[str]:
        """Ways between these nodes that were passed lately, about which nothing was heard since.

        Between two nodes `with_gpus` it is the way from GPU to GPU.
        """
        valid = {node for node in nodes if self.is_valid(node, now)}
        found = (
            Pair.of(node, other).link
            for node in valid
            for other in {way.partition("/")[0] for way in self.pages[node].passes.links} & valid
            if self._is_settled(node, other, now, gpu=node in with_gpus and other in with_gpus)
        )
        return frozenset(link for link in found if not self.belief(link, now).is_suspect)

    def _is_settled(self, one: str, other: str, now: datetime, *, gpu: bool) -> bool:
        there = self.pages[one].passes.links.get(way_to(other, gpu=gpu))
        back = self.pages[other].passes.links.get(way_to(one, gpu=gpu))
        return holds(there, now) and holds(back, now)

    def has_met(self, nodes: Iterable[str], stages: Iterable[str], now: datetime) -> bool:
        """Whether exactly these nodes passed these stages as a gang lately, and nothing was heard of any since."""
        gang = tuple(nodes)
        name = gang_name(gang, stages)
        return all(self.is_valid(node, now) and holds(self.pages[node].passes.gangs.get(name), now) for node in gang)

    def fleet(self, kind: str, figure: str) -> tuple[float, ...]:
        """What sound nodes of this kind gave before, each node's last values."""
        return tuple(self._fleet.get((kind, figure), ()))

    def own(self, node: str, figure: str) -> tuple[float, ...]:
        """What this node gave before."""
        page = self.pages.get(node)
        return tuple(page.own.get(figure, ())) if page else ()

    def remembered(self, part: str) -> Remembered | None:
        """What was believed of the part when it was last heard of; None where nothing is known."""
        return self._parts.get(part)

    def restore_part(self, part: str, remembered: Remembered) -> None:
        """Put back what was believed of a part."""
        self._parts[part] = remembered

    def restore_fleet(self, kind: str, figure: str, values: Iterable[float]) -> None:
        """Put back what sound nodes gave."""
        self._fleet[kind, figure] = deque(values, maxlen=_FLEET_VALUES)

    def _reported(self, page: NodePage, reported: NodeReported) -> None:
        """What a node has; another thing than before is another node."""
        if page.reported is not None and page.reported != reported:
            page.void()
        page.reported = reported

    def _ordered(self, page: NodePage, order: NodeMarked | NodeRecalled, at: datetime) -> None:
        """An admin wants something of the node."""
        if isinstance(order, NodeRecalled):
            self._forget(order.node)
            page.wanted_back_at = at
        elif order.wish == "Ready":
            self._forget(order.node)
            page.judged, page.wanted_back_at = None, None

    def _forget(self, node: str) -> None:
        """What was believed of the node and its devices is void: somebody has seen to it."""
        for part in [part for part in self._parts if part.partition("/")[0] == node]:
            del self._parts[part]
            self.touched.parts.add(part)

    def _remember(self, part: str, belief: Belief, at: datetime) -> None:
        self._parts[part] = Remembered(belief, at)
        self.touched.parts.add(part)

    def suspects(self, now: datetime) -> Mapping[str, float]:
        """Nodes that are to be looked at again, and how likely each is bad."""
        beliefs = {node: self.belief(node, now) for node in self.pages}
        return {node: belief.suspicion for node, belief in beliefs.items() if belief.is_suspect}

    def newly_suspected(self, now: datetime) -> Iterator[NodeJudged]:
        """What there is to tell of nodes that became suspect by what jobs did on them since they were last judged."""
        for node, page in self.pages.items():
            judged = suspicion(page.suspected_by, page.judged) if page.has_new_sign else None
            if judged is not None and self.belief(node, now).is_suspect:
                yield judged

    def _diagnosed(self, page: NodePage, part: NodeDiagnosed, at: datetime) -> None:
        page.diagnosed, page.diagnosed_at = part, at
        if page.wanted_back_at is not None and part.answers(page.wanted_back_at):
            page.wanted_back_at = None
        for each in part.beliefs:
            prior = LINK_IS_BAD if is_link(each.part) else NODE_IS_BAD
            self._remember(each.part, Belief(each.evidence, each.fails, prior), at)
        if part.verdict != "green":
            page.void()
            return
        self._passed(page, part, at)
        for figure in part.figures:
            key = figure.name if figure.device is None else f"{figure.name}/{figure.device}"
            page.own.setdefault(key, deque(maxlen=_OWN_VALUES)).append(figure.value)
            self._add(part.kind, figure.name, figure.value)
        for pair in part.pairs:
            if pair.verdict == "green" and pair.bandwidth_mb_s is not None:
                self._add(part.kind, pair_figure(pair.transport), pair.bandwidth_mb_s)

    def _passed(self, page: NodePage, part: NodeDiagnosed, at: datetime) -> None:
        """What the green part of a report covers."""
        if part.fresh:
            page.passed_at = at
            page.passes.take_stages(part.stages or stages_of_devices(NODE_STAGES, ()), at)
        if part.gang:
            page.passes.take_gang(part.gang, at)
        for pair in part.pairs:
            if pair.verdict == "green" and not pair.failed:
                self._linked(pair, at)

    def _linked(self, pair: PairMeasured, at: datetime) -> None:
        for node, partner in ((pair.first, pair.second), (pair.second, pair.first)):
            self.pages[node].passes.take_link(way_to(partner, gpu=pair.transport == _OF_GPUS), at)
            self.touched.nodes.add(node)

    def _add(self, kind: str, figure: str, value: float) -> None:
        self._fleet.setdefault((kind, figure), deque(maxlen=_FLEET_VALUES)).append(value)
        self.touched.fleet.add((kind, figure))


def pair_figure(transport: str) -> str:
    """What the bandwidth between two nodes is called: what it was measured with makes another figure of it."""
    return f"pair bandwidth over {transport}"
