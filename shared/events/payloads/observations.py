"""What was seen of a job while it ran: facts that change no state and may come twice or late."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shared.events.facts import NodeFinding, ReplicaChange, ReplicaRef, Sentence, Time
from shared.events.measured import RankSteps, SlowRank
from shared.events.payloads.base import Payload


class ReplicasChanged(Payload):
    """Replicas started or exited since the last such event; at most a second late."""

    TYPE = "trainmaster.replicas.changed.v1"
    SUFFIX = "replicas.changed"
    KIND = "obs"
    AUTHOR = "scheduler"

    changes: tuple[ReplicaChange, ...]


class CodeResolved(Payload):
    """The attempt runs this commit; the first such event of an attempt holds."""

    TYPE = "trainmaster.code.resolved.v1"
    SUFFIX = "code.resolved"
    KIND = "obs"
    AUTHOR = "scheduler"

    uri: str
    revision: str


class DiagnosisRequested(Payload):
    """The placed nodes are to be checked before user code runs.

    `machines` has the machine whose agent answers for a node; a node that is missing is a machine of its own. `names`
    are what people call the nodes. In a later round, after nodes were replaced, only those in `only` are tested, and
    the others are their partners.
    """

    TYPE = "trainmaster.diagnosis.requested.v1"
    SUFFIX = "diagnosis.requested"
    KIND = "obs"
    AUTHOR = "scheduler"

    nodes: tuple[str, ...]
    machines: dict[str, str] = Field(default_factory=dict)
    names: dict[str, str] = Field(default_factory=dict)
    round: int = 1
    only: tuple[str, ...] = ()

    @property
    def part(self) -> str:
        """One a round."""
        return _round_part(self.round)


class DiagnosisFinished(Payload):
    """The outcome of a diagnosis: which nodes failed, and why.

    `doubtful_nodes` are amber without having failed: to be avoided where others are free, the most doubtful first.
    `untested_nodes` were only looked at although they have no pass; `message` says why, and they fail nothing. Of very
    many nodes (`node_count`) the findings of some that are green are left out.
    """

    TYPE = "trainmaster.diagnosis.finished.v1"
    SUFFIX = "diagnosis.finished"
    KIND = "obs"
    AUTHOR = "diagnoser"

    passed: bool
    bad_nodes: tuple[str, ...] = ()
    message: Sentence = ""
    findings: tuple[NodeFinding, ...] = ()
    round: int = 1
    doubtful_nodes: tuple[str, ...] = ()
    node_count: int = 0
    untested_nodes: tuple[str, ...] = ()

    @property
    def part(self) -> str:
        """One a round."""
        return _round_part(self.round)


class ProgressReported(Payload):
    """How far the attempt was at a moment, as its log and scalars tell; at most one a minute, and rarer as it runs on.

    `step` counts within the epoch where `within_epoch` says so. `fraction` and `estimated_end` are there where the
    whole length is known.
    """

    TYPE = "trainmaster.progress.reported.v1"
    SUFFIX = "progress.reported"
    KIND = "obs"
    AUTHOR = "logs"

    at: Time
    step: int | None = None
    total_steps: int | None = None
    within_epoch: bool = False
    epoch: float | None = None
    total_epochs: int | None = None
    loss: float | None = None
    steps_per_second: float | None = None
    fraction: float | None = None
    estimated_end: Time | None = None


class StepsMeasured(Payload):
    """What the first steps of an attempt took on each rank, once enough of them are known; one for an attempt.

    `source` says whether the training told it with the hook, or it was read off the log or the scalars.
    """

    TYPE = "trainmaster.steps.measured.v1"
    SUFFIX = "steps.measured"
    KIND = "obs"
    AUTHOR = "logs"

    source: Literal["hook", "log", "scalars"]
    ranks: tuple[RankSteps, ...]


class BurnInJudged(Payload):
    """Whether a rank stood out in the first steps of an attempt; the job is left alone whatever is found.

    `suspects` are told of in the ledger of nodes, too. Where there was nothing to compare, `message` says why.
    """

    TYPE = "trainmaster.burnin.judged.v1"
    SUFFIX = "burnin.judged"
    KIND = "obs"
    AUTHOR = "diagnoser"

    source: Literal["hook", "log", "scalars"]
    ranks: int
    last_step: int
    middle_ms: float | None = None
    suspects: tuple[SlowRank, ...] = ()
    message: Sentence = ""


class LogsRemoved(Payload):
    """The logs and TensorBoard records of an ended job went, because of their age or because there was too much."""

    TYPE = "trainmaster.logs.removed.v1"
    SUFFIX = "logs.removed"
    KIND = "obs"
    AUTHOR = "logs"

    reason: Literal["age", "user-size", "project-size"]
    bytes: int


class IncidentRaised(Payload):
    """A rule matched: the line, what stood before it, and what is done about it.

    A silence has no replica, and a sentence for its line; `at` is when it was noticed. Rules of the catalogue say how
    bad it is, what class of failure, and what to do. A rule in mode `shadow` is being tried: it decides nothing.
    """

    TYPE = "trainmaster.incident.raised.v1"
    SUFFIX = "incident.raised"
    KIND = "obs"
    AUTHOR = "watchdog"

    rule: str
    line: str
    before: tuple[str, ...] = ()
    replica: ReplicaRef | None = None
    action: Literal["none", "stop"] = "none"
    at: Time | None = None
    mode: Literal["active", "shadow"] = "active"
    failure_class: str | None = Field(None, alias="class")
    severity: str | None = None
    advice: Sentence = ""


class EvidenceCollected(Payload):
    """What the processes of a silent attempt were doing; the bundle is in the object store under its digest.

    It belongs to the incident with this rule that was noticed at `noticed_at`. Without a digest nothing could be kept,
    and `problems` say why. `outliers` are ranks that do not do what most others do.
    """

    TYPE = "trainmaster.evidence.collected.v1"
    SUFFIX = "evidence.collected"
    KIND = "obs"
    AUTHOR = "watchdog"

    rule: str
    noticed_at: Time
    at: Time
    summary: Sentence = ""
    digest: str | None = None
    size_bytes: int = 0
    outliers: tuple[Sentence, ...] = ()
    problems: tuple[Sentence, ...] = ()


def _round_part(number: int) -> str:
    """Nothing in the first round, so that its events are called what they were before there were rounds."""
    return "" if number == 1 else str(number)
