"""All that is known of the cluster: gangs with their pods, nodes, and what others hold; kept up by four watches.

The streams are not in step with each other: a pod may be seen before its gang's record, and a record's new phase before
or after what followed from it. So parts are kept as they come, and what they mean together is judged when somebody
asks. A gang is remembered while its record or one of its pods is there.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from services.scheduler.engines.kubernetes.gangs import GangSeen, Key
from services.scheduler.engines.kubernetes.nodes import Amounts, NodeSeen, OtherPod
from services.scheduler.engines.kubernetes.pods import Ended, PodSeen
from services.scheduler.engines.kubernetes.verdicts import Evidence, LastSeen, NodeLoss, Verdict, verdict
from shared.clock import Clock
from shared.kubernetes.watch import Changed, Gone, Listed, Told, Unreachable

# Told to listeners instead of a replica where all replicas of the gang may be concerned.
ALL: Final[Key] = ("", -1)

Listener = Callable[[str, Key], None]


SILENT_AFTER_S: Final = 60.0
"""How long the API server may be away before nothing more is placed in its cluster; what runs there is left alone."""


@dataclass(frozen=True, slots=True)
class Silence:
    """The API server is away."""

    since: datetime
    because: str


@dataclass(slots=True)
class GangLife:
    """One gang: its record, its pods, how pods that are gone were last, and ends that are noted or about to be.

    `complaints` is what nodes say of pods that they cannot start.
    `awaits_list` while a list of pods is under way that began after the release; `listed` once it has come.
    """

    record: GangSeen | None = None
    is_record_gone: bool = False
    pods: dict[Key, PodSeen] = field(default_factory=dict)
    gone: dict[Key, LastSeen] = field(default_factory=dict)
    ends: dict[Key, Ended] = field(default_factory=dict)
    complaints: dict[Key, str] = field(default_factory=dict)
    awaits_list: bool = False
    listed: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nothing is left of it that anybody could ask about."""
        forgotten = self.record is None or self.record.is_forgotten
        return not self.pods and forgotten and (self.record is None or self.is_record_gone)


class Picture:
    """What the cluster looks like now."""

    def __init__(self, clock: Clock, lost_after_s: float) -> None:
        self._clock = clock
        self._lost_after_s = lost_after_s
        self.gangs: dict[str, GangLife] = {}
        self.nodes: dict[str, NodeSeen] = {}
        self._nodes_gone: dict[str, datetime] = {}
        self._others: dict[str, OtherPod] = {}
        self._held: defaultdict[str, Amounts] = defaultdict(Amounts)
        self._silence: Silence | None = None
        self._listeners: set[Listener] = set()
        self.has_gangs, self.has_pods = asyncio.Event(), asyncio.Event()
        self.has_nodes, self.has_others = asyncio.Event(), asyncio.Event()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Have a function told of each replica of which something is new, until the returned one is called."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    # --- what is asked

    def judge(self, gang: str, key: Key) -> Verdict:
        """What became of a replica."""
        life = self.gangs[gang]
        if life.record is None:
            return Verdict()
        pod = life.pods.get(key)
        loss = self.loss(pod.node) if pod is not None and pod.node else None
        noted = life.ends.get(key) or life.record.noted.get(key)
        evidence = Evidence(pod, life.gone.get(key), noted, loss, listed=life.listed)
        found = verdict(life.record, evidence, self._clock.now())
        complaint = life.complaints.get(key) if pod is not None and pod.waits_for_something_unsaid else None
        return replace(found, waiting=complaint) if complaint and found.ended is None else found

    def loss(self, node: str) -> NodeLoss | None:
        """Whether the node counts as lost, and since when."""
        seen = self.nodes.get(node)
        if seen is None:
            gone_at = self._nodes_gone.get(node)
            why = "Kubernetes has no such node any more"
        else:
            gone_at, why = seen.not_ready_since, seen.not_ready_because
        if gone_at is None or (self._clock.now() - gone_at).total_seconds() < self._lost_after_s:
            return None
        return NodeLoss(node, gone_at, why)

    def silence(self) -> Silence | None:
        """Since when the API server says nothing of nodes, where that is long ago, and why."""
        silence = self._silence
        if silence is None or (self._clock.now() - silence.since).total_seconds() < SILENT_AFTER_S:
            return None
        return silence

    def losses(self) -> frozenset[str]:
        """Nodes that count as lost."""
        doubtful = [*self._nodes_gone, *(node.name for node in self.nodes.values() if node.not_ready_since)]
        return frozenset(name for name in doubtful if self.loss(name) is not None)

    def held_by_others(self, node: str) -> Amounts:
        """What pods that are not ours hold of a node."""
        return self._held.get(node, Amounts())

    def gangs_on(self, nodes: frozenset[str]) -> Iterator[tuple[str, Key]]:
        """Replicas whose pods are on one of these nodes."""
        for gang, life in self.gangs.items():
            for key, pod in life.pods.items():
                if pod.node in nodes:
                    yield gang, key

    # --- what is new

    def take_gangs(self, news: Told[GangSeen | None]) -> None:
        """Something about records of gangs."""
        match news:
            case Listed(items):
                gangs = [gang for gang in items if gang is not None]
                there = {gang.id for gang in gangs}
                for gang in gangs:
                    self.take_record(gang)
                for gang_id in [name for name, life in self.gangs.items() if life.record and name not in there]:
                    self._lose_record(gang_id)
                self.has_gangs.set()
            case Changed(GangSeen() as gang):
                self.take_record(gang)
            case Gone(GangSeen() as gang):
                self._lose_record(gang.id)

    def take_record(self, gang: GangSeen) -> None:
        """A record, as a watch or an answer brought it; one that is not newer than what is known says nothing new."""
        life = self.gangs.setdefault(gang.id, GangLife())
        known = life.record
        if known is not None and known.uid == gang.uid and known.version >= gang.version:
            return
        life.record, life.is_record_gone = gang, False
        self._tell(gang.id, ALL)

    def take_complaint(self, gang: str, key: Key, complaint: str) -> None:
        """What the events of a replica's pod say; it counts while the pod itself does not say what it waits for."""
        life = self.gangs.get(gang)
        if life is not None and life.complaints.get(key, "") != complaint:
            life.complaints[key] = complaint
            self._tell(gang, key)

    def drop(self, gang: str) -> None:
        """Nobody wants to know of this gang any more."""
        self.gangs.pop(gang, None)

    def pods_are_asked_for(self) -> None:
        """A list of pods is about to be asked for: what was true of released gangs before, it will show."""
        for life in self.gangs.values():
            life.awaits_list = life.record is not None and life.record.released_at is not None

    def take_pods(self, news: Told[PodSeen | None]) -> None:
        """Something about our pods."""
        match news:
            case Listed(items):
                self._take_all_pods(pod for pod in items if pod is not None)
            case Changed(PodSeen() as pod):
                self._take_pod(pod)
            case Gone(PodSeen() as pod):
                self._lose_pod(pod)

    def take_nodes(self, news: Told[NodeSeen]) -> None:
        """Something about nodes."""
        match news:
            case Listed(items):
                for name in self.nodes.keys() - {node.name for node in items}:
                    self._lose_node(name)
                for node in items:
                    self._take_node(node)
                self.has_nodes.set()
            case Changed(item):
                self._take_node(item)
            case Gone(item):
                self._lose_node(item.name)
        self._silence = self._silence_after(news)

    def take_others(self, news: Told[OtherPod]) -> None:
        """Something about pods that are not ours."""
        match news:
            case Listed(items):
                self._others.clear()
                self._held.clear()
                for pod in items:
                    self._hold(pod)
                self.has_others.set()
            case Changed(item):
                self._release(item.uid)
                self._hold(item)
            case Gone(item):
                self._release(item.uid)

    # --- how it is kept

    def _take_all_pods(self, pods: Iterable[PodSeen]) -> None:
        there: set[tuple[str, Key]] = set()
        for pod in pods:
            there.add((pod.gang, pod.key))
            self._take_pod(pod)
        for gang, life in list(self.gangs.items()):
            for key in [key for key in life.pods if (gang, key) not in there]:
                self._lose_pod(life.pods[key])
            if life.awaits_list:
                life.listed, life.awaits_list = True, False
                self._tell(gang, ALL)
        self.has_pods.set()

    def _take_pod(self, pod: PodSeen) -> None:
        life = self.gangs.setdefault(pod.gang, GangLife())
        known = life.pods.get(pod.key)
        pod = _with_first_deletion(pod, known)
        life.pods[pod.key] = pod
        life.gone.pop(pod.key, None)
        if known != pod:
            self._tell(pod.gang, pod.key)

    def _lose_pod(self, pod: PodSeen) -> None:
        life = self.gangs.get(pod.gang)
        known = life.pods.get(pod.key) if life is not None else None
        if life is None or (known is not None and known.uid != pod.uid):
            return
        life.pods.pop(pod.key, None)
        life.gone[pod.key] = LastSeen(_with_first_deletion(pod, known), self._clock.now())
        self._tell(pod.gang, pod.key)
        self._drop_if_over(pod.gang)

    def _lose_record(self, gang: str) -> None:
        life = self.gangs.get(gang)
        if life is not None:
            life.is_record_gone = True
            self._tell(gang, ALL)
            self._drop_if_over(gang)

    def _drop_if_over(self, gang: str) -> None:
        if self.gangs[gang].is_over:
            del self.gangs[gang]

    def _take_node(self, node: NodeSeen) -> None:
        self.nodes[node.name] = node
        self._nodes_gone.pop(node.name, None)

    def _lose_node(self, name: str) -> None:
        if self.nodes.pop(name, None) is not None:
            self._nodes_gone[name] = self._clock.now()

    def _silence_after(self, news: Told[NodeSeen]) -> Silence | None:
        if not isinstance(news, Unreachable):
            return None
        return replace(self._silence, because=news.reason) if self._silence else Silence(self._clock.now(), news.reason)

    def _hold(self, pod: OtherPod) -> None:
        self._others[pod.uid] = pod
        self._held[pod.node] += pod.held

    def _release(self, uid: str) -> None:
        pod = self._others.pop(uid, None)
        if pod is not None:
            self._held[pod.node] -= pod.held

    def _tell(self, gang: str, key: Key) -> None:
        for listener in self._listeners:
            listener(gang, key)


def _with_first_deletion(pod: PodSeen, known: PodSeen | None) -> PodSeen:
    """The kubelet deletes a pod once more when it has ended, and the server notes the later time."""
    if known is None or known.uid != pod.uid or known.deleted_at in (None, pod.deleted_at):
        return pod
    return replace(pod, deleted_at=known.deleted_at)
