"""What state every node is in: the fold of its events, and one rule that makes states of all of them together.

A node is `Lost` while the engine does not offer it, or says so; otherwise it is what somebody wants it to be, and where
nobody wants anything what the engine says, which is `Ready` unless it is closed there. An admin's wish holds as it is,
the latest one. The diagnoser's wish for a quarantine, which a node gets when a diagnosis finds it `bad`, holds only
while enough of every pool that the node is in is left: wishes are granted in the order in which they came, up to `CAP`
of each pool; the rest is *withheld*, which is announced, and granted as soon as there is room for it.

A node that was found bad comes back by passing a test, which an admin may ask for, or where an admin forces it.

The state of a node changes nothing for what runs on it: what gangs hold there they hold until their end is confirmed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from services.scheduler.domain.gang import Pool
from services.scheduler.domain.nodes import Device, Node, NodeState
from shared.events import NodeChanged, NodeDiagnosed, NodeJudged, NodeMarked, NodeRecalled, NodeReported
from shared.jobs import Recorded

LOST_SHOWN: Final = timedelta(days=1)
DIAGNOSER: Final = "diagnoser"
ENGINE: Final = "engine"
_LOST_BECAUSE: Final = "the engine does not offer it any more"


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants a node to be; `sequence` tells which of several came first."""

    state: NodeState
    by: str
    reason: str
    since: datetime
    sequence: int
    capped: bool = False


@dataclass(frozen=True, slots=True)
class Return:
    """Somebody wants a node back that was found bad; it is tested first."""

    by: str
    reason: str
    since: datetime


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """What the events say of one node; `is_bad` as long as the last that diagnoses said of it is that."""

    id: str
    reported: NodeReported | None = None
    wish: Wish | None = None
    suspicion: str = ""
    is_bad: bool = False
    returning: Return | None = None
    announced: NodeChanged | None = None
    announced_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeLife:
    """A node with the state that it is in, and why; `withheld` where only the cap keeps it from a quarantine."""

    node: Node
    reason: str = ""
    by: str = ""
    since: datetime | None = None
    withheld: bool = False
    returning: Return | None = None

    @property
    def state(self) -> NodeState:
        return self.node.state


def folded(record: NodeRecord, recorded: Recorded) -> NodeRecord:
    """The record after the event."""
    event = recorded.event
    match event.data:
        case NodeReported() as reported:
            return replace(record, reported=reported)
        case NodeMarked() as marked:
            return _marked(record, marked, recorded)
        case NodeRecalled() as wanted if record.is_bad:
            return _wanted_back(record, wanted, recorded)
        case NodeDiagnosed() as part if record.returning is not None and part.answers(record.returning.since):
            return replace(record, returning=None)
        case NodeJudged() as judged:
            return _judged(record, judged, recorded)
        case NodeChanged() as changed:
            record = replace(record, announced=changed, announced_at=event.time)
    return record


def _marked(record: NodeRecord, marked: NodeMarked, recorded: Recorded) -> NodeRecord:
    if marked.wish == "Ready":
        return replace(record, wish=None, suspicion="", is_bad=False, returning=None)
    wish = Wish(NodeState(marked.wish), marked.by, marked.reason, recorded.event.time, recorded.sequence)
    return replace(record, wish=wish)


def _wanted_back(record: NodeRecord, wanted: NodeRecalled, recorded: Recorded) -> NodeRecord:
    """An order of an admin is over, but until the node has passed it is quarantined as what it was found to be."""
    is_diagnosers = record.wish is not None and record.wish.capped
    wish = record.wish if is_diagnosers else _quarantine(record.suspicion, recorded)
    return replace(record, wish=wish, returning=Return(wanted.by, wanted.reason, recorded.event.time))


def _judged(record: NodeRecord, judged: NodeJudged, recorded: Recorded) -> NodeRecord:
    """An admin's wish stands whatever is found; only the diagnoser's own is taken back by a good result."""
    wish = record.wish
    if judged.health == "bad" and wish is None:
        wish = _quarantine(judged.reason, recorded)
    elif judged.health == "good" and wish is not None and wish.capped:
        wish = None
    suspicion = "" if judged.health == "good" else judged.reason
    return replace(record, wish=wish, suspicion=suspicion, is_bad=judged.health == "bad")


def _quarantine(reason: str, recorded: Recorded) -> Wish:
    """What the diagnoser wants of a node that is bad."""
    return Wish(NodeState.QUARANTINED, DIAGNOSER, reason, recorded.event.time, recorded.sequence, capped=True)


def lives(
    offered: Iterable[Node],
    records: Mapping[str, NodeRecord],
    pools: Mapping[str, Pool],
    *,
    cap_percent: int,
) -> dict[str, NodeLife]:
    """Every node that the engine offers or offered once, by id."""
    present = {node.id: node for node in offered}
    lost = {record.id: _lost(record) for record in records.values() if record.reported and record.id not in present}
    granted = set(_granted(present, records, pools, cap_percent))
    return {
        **{node.id: _life(node, records.get(node.id), granted) for node in present.values()},
        **{node_id: life for node_id, life in lost.items() if life is not None},
    }


def is_shown(life: NodeLife, record: NodeRecord | None, held: Collection[str], now: datetime) -> bool:
    """Whether the node is worth to be told of: a lost one is for a day, and while something is held on it."""
    if life.state is not NodeState.LOST or life.node.id in held:
        return True
    since = record.announced_at if record and record.announced and record.announced.state == NodeState.LOST else None
    return since is None or now - since < LOST_SHOWN


def allowed(size: int, cap_percent: int) -> int:
    """How many nodes of a pool of this size may be quarantined without an admin: its share, and one of several."""
    return max(size * cap_percent // 100, 1 if size > 1 and cap_percent else 0)


def _life(node: Node, record: NodeRecord | None, granted: set[str]) -> NodeLife:
    wish = record.wish if record else None
    if node.state is NodeState.LOST or (wish is None and node.state is not NodeState.READY):
        return NodeLife(node, node.because, ENGINE)
    if wish is None:
        suspicion = record.suspicion if record else ""
        return NodeLife(replace(node, suspect=bool(suspicion)), suspicion, DIAGNOSER if suspicion else "")
    returning = record.returning if record else None
    if node.id in granted:
        return NodeLife(replace(node, state=wish.state), wish.reason, wish.by, wish.since, returning=returning)
    suspect = replace(node, suspect=True)
    return NodeLife(suspect, wish.reason, wish.by, wish.since, withheld=True, returning=returning)


def _lost(record: NodeRecord) -> NodeLife | None:
    if record.reported is None:
        return None
    since = record.announced_at if record.announced and record.announced.state == NodeState.LOST else None
    return NodeLife(replace(node_of(record.reported), state=NodeState.LOST), _LOST_BECAUSE, ENGINE, since)


def _granted(
    present: Mapping[str, Node], records: Mapping[str, NodeRecord], pools: Mapping[str, Pool], cap_percent: int
) -> Iterator[str]:
    """Nodes whose wish holds: those of admins first, then the others while there is room in every pool of theirs."""
    wished = [(record.wish, present[record.id]) for record in records.values() if record.wish and record.id in present]
    capped = sorted((wish.sequence, node.id) for wish, node in wished if wish.capped)
    pools_of = {node.id: [name for name, pool in pools.items() if pool.has(node)] for _, node in wished}
    taken: Counter[str] = Counter()
    for wish, node in wished:
        if not wish.capped:
            taken.update(pools_of[node.id] if wish.state is NodeState.QUARANTINED else ())
            yield node.id
    sizes = _sizes(present, pools) if capped else {}
    for _, node_id in capped:
        if all(taken[name] < allowed(sizes[name], cap_percent) for name in pools_of[node_id]):
            taken.update(pools_of[node_id])
            yield node_id


def _sizes(present: Mapping[str, Node], pools: Mapping[str, Pool]) -> dict[str, int]:
    return {name: sum(pool.has(node) for node in present.values()) for name, pool in pools.items()}


def node_of(reported: NodeReported) -> Node:
    """The node as it was last reported."""
    return Node(
        id=reported.node,
        name=reported.name or reported.node,
        cluster=reported.cluster,
        cpu_m=reported.cpu_millis,
        memory_bytes=reported.memory_bytes,
        devices=tuple(Device(device, reported.gpu_model or "") for device in reported.devices),
        labels=reported.labels,
    )


def report_of(node: Node) -> NodeReported:
    """What is told of a node that the engine offers, whatever others hold of it."""
    node = node.whole()
    return NodeReported(
        cluster=node.cluster,
        node=node.id,
        name=node.name,
        cpu_millis=node.cpu_m,
        memory_bytes=node.memory_bytes,
        gpu_model=node.devices[0].model if node.devices else None,
        devices=tuple(device.id for device in node.devices),
        labels=dict(node.labels),
    )


def change_of(life: NodeLife, record: NodeRecord | None) -> NodeChanged | None:
    """What there is to announce of a node: nothing where it is as it was announced, or ordinary and never announced."""
    before = record.announced if record else None
    if before is None and life.state is NodeState.READY and not life.withheld:
        return None
    if before is not None and (before.state, before.withheld) == (life.state, life.withheld):
        return None
    return NodeChanged(
        cluster=life.node.cluster,
        node=life.node.id,
        before=before.state if before else NodeState.READY,
        state=life.state,
        by=life.by,
        reason=life.reason,
        withheld=life.withheld,
    )
