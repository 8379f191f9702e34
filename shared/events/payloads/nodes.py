"""What is known of nodes: what each offers, what was found wrong with it, what somebody wants it to be, what it is."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shared.events.facts import Sentence, Time, Verdict
from shared.events.measured import FigureMeasured, PairMeasured, PartBelief
from shared.events.payloads.base import Payload

NodeWish = Literal["Ready", "Draining", "Quarantined"]
NodeHealth = Literal["good", "suspect", "bad"]


class NodeReported(Payload):
    """What a node offers."""

    TYPE = "trainmaster.node.reported.v1"
    SUFFIX = "reported"
    KIND = "node"
    AUTHOR = "scheduler"

    cluster: str
    node: str
    name: str | None = None
    cpu_millis: int
    memory_bytes: int
    gpu_model: str | None = None
    devices: tuple[str, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)


class NodeMarked(Payload):
    """An admin wants the node to be drained, quarantined, or an ordinary node again; `by` is their name.

    `forced`: it is to be used again although a diagnosis found it bad, and untested.
    """

    TYPE = "trainmaster.node.marked.v1"
    SUFFIX = "marked"
    KIND = "node"
    AUTHOR = "scheduler"

    cluster: str
    node: str
    wish: NodeWish
    by: str
    reason: Sentence
    forced: bool = False


class NodeRecalled(Payload):
    """An admin wants a node back that a diagnosis found bad: it is tested, and returns when it passes."""

    TYPE = "trainmaster.node.recalled.v1"
    SUFFIX = "recalled"
    KIND = "node"
    AUTHOR = "scheduler"

    cluster: str
    node: str
    by: str
    reason: Sentence


class NodeJudged(Payload):
    """What a diagnosis says of the node's health: `suspect` after one job, `bad` after another one, too."""

    TYPE = "trainmaster.node.judged.v1"
    SUFFIX = "judged"
    KIND = "node"
    AUTHOR = "diagnoser"

    cluster: str
    node: str
    health: NodeHealth
    reason: Sentence = ""
    job: str = ""


class NodeDiagnosed(Payload):
    """A node's part of a diagnosis: what was measured, against what, and what it says.

    The parts with the same `diagnosis` together are its report; a pair is in the part of its first node. `kind` says
    which machines the figures can be compared with. Where `injected` names faults, what was measured was changed on
    purpose, and nothing follows from it. `fresh` is false where an earlier pass held: then only facts were looked at,
    and other nodes may have been tested with it. A pass covers `stages` of devices, and the `gang` (a name made of ids
    of nodes) that passed together. `about` says with what it was tested: `transport`, versions, `without` why not by
    PyTorch. `untested` says why a node without a pass was only looked at: a job is on it, or its tests were broken off.
    """

    TYPE = "trainmaster.node.diagnosed.v1"
    SUFFIX = "diagnosed"
    KIND = "node"
    AUTHOR = "diagnoser"

    cluster: str
    node: str
    name: str = ""
    diagnosis: str
    job: str = ""
    attempt: int = 0
    began: Time
    took_s: float
    node_count: int = 1
    kind: str = ""
    about: dict[str, Sentence] = Field(default_factory=dict)
    verdict: Verdict
    fresh: bool = True
    problems: tuple[Sentence, ...] = ()
    doubts: tuple[Sentence, ...] = ()
    facts: tuple[FigureMeasured, ...] = ()
    figures: tuple[FigureMeasured, ...] = ()
    pairs: tuple[PairMeasured, ...] = ()
    beliefs: tuple[PartBelief, ...] = ()
    stages: tuple[str, ...] = ()
    gang: str = ""
    injected: tuple[str, ...] = ()
    untested: Sentence = ""

    def answers(self, recalled_at: Time) -> bool:
        """Whether this says if a node that was recalled then may return.

        A pass does, and anything wrong that was seen since, in a look that made a test needless, too.
        """
        if self.injected:
            return False
        is_green = self.verdict == "green"
        return (self.fresh and is_green) or (self.began >= recalled_at and not is_green)


class NodeChanged(Payload):
    """The node's state is another one, or its quarantine is withheld, since too much of a pool would be missing."""

    TYPE = "trainmaster.node.changed.v1"
    SUFFIX = "changed"
    KIND = "node"
    AUTHOR = "scheduler"

    cluster: str
    node: str
    before: str
    state: str
    by: str = ""
    reason: Sentence = ""
    withheld: bool = False


class NodeSuspected(Payload):
    """`attempt` of `job` failed in a way that speaks against this node; a next attempt is told to leave it out."""

    TYPE = "trainmaster.node.suspected.v1"
    SUFFIX = "suspected"
    KIND = "node"
    AUTHOR = "watchdog"

    cluster: str
    node: str
    job: str
    attempt: int
    rule: str
    line: str | None = None
    at: Time | None = None


class NodeLagged(Payload):
    """A rank on this node held the others of its job up in the first steps: a weak sign against the node.

    `reason` has the figures.
    """

    TYPE = "trainmaster.node.lagged.v1"
    SUFFIX = "lagged"
    KIND = "node"
    AUTHOR = "diagnoser"

    cluster: str
    node: str
    name: str = ""
    job: str
    attempt: int
    rank: int
    reason: Sentence
