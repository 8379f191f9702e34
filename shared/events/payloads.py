"""The payloads: one class a kind of event, with its type, subject, kind and author."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from pydantic import Field, JsonValue

from shared.events.facts import (
    EndReason,
    Fact,
    NodeFinding,
    ReplicaChange,
    ReplicaExit,
    ReplicaRef,
    Resolved,
    RolePlacement,
    Sentence,
    Time,
    UsagePhase,
)

Author = Literal["submitter", "scheduler", "watchdog", "diagnoser", "logs"]
Kind = Literal["state", "obs", "name", "epoch", "node", "usage"]


class Payload(Fact):
    """Base of the payloads; the class variables describe the kind of event."""

    TYPE: ClassVar[str]
    SUFFIX: ClassVar[str]
    KIND: ClassVar[Kind]
    AUTHOR: ClassVar[Author]


class Unknown(Payload):
    """Payload of an event type that this version does not know."""

    TYPE = ""
    SUFFIX = ""
    KIND = "obs"
    AUTHOR = "submitter"


class Submitted(Payload):
    """A job was accepted: its spec with defaults filled in, and every reference resolved."""

    TYPE = "trainmaster.job.submitted.v1"
    SUFFIX = "submitted"
    KIND = "state"
    AUTHOR = "submitter"

    name: str
    generate_name: str | None = None
    owner_name: str
    labels: tuple[str, ...] = ()
    spec: dict[str, JsonValue]
    resolved: Resolved
    priority: int = 5
    request_digest: str | None = None


class Queued(Payload):
    """A further attempt waits for a place."""

    TYPE = "trainmaster.job.queued.v1"
    SUFFIX = "queued"
    KIND = "state"
    AUTHOR = "scheduler"

    reason: Literal["retry", "preempted", "platform"] = "retry"


class Placed(Payload):
    """The whole gang has its nodes and devices."""

    TYPE = "trainmaster.job.placed.v1"
    SUFFIX = "placed"
    KIND = "state"
    AUTHOR = "scheduler"

    cluster: str
    roles: tuple[RolePlacement, ...]
    diagnosing: bool = False


class Admitted(Payload):
    """The placed nodes passed their diagnosis."""

    TYPE = "trainmaster.job.admitted.v1"
    SUFFIX = "admitted"
    KIND = "state"
    AUTHOR = "scheduler"


class Started(Payload):
    """Every replica of the attempt runs."""

    TYPE = "trainmaster.job.started.v1"
    SUFFIX = "started"
    KIND = "state"
    AUTHOR = "scheduler"


class StopRequested(Payload):
    """Somebody wants the job to end."""

    TYPE = "trainmaster.stop.requested.v1"
    SUFFIX = "stop.requested"
    KIND = "state"
    AUTHOR = "submitter"

    by: str
    reason: Sentence = ""


class AttemptEnded(Payload):
    """The end of every replica of the attempt is confirmed."""

    TYPE = "trainmaster.attempt.ended.v1"
    SUFFIX = "attempt.ended"
    KIND = "state"
    AUTHOR = "scheduler"

    reason: EndReason
    message: Sentence = ""
    first_failure: ReplicaRef | None = None
    exit: ReplicaExit | None = None


class RetryDecided(Payload):
    """Whether there will be another attempt, and why: the rule that decided, and the replica and line that it saw."""

    TYPE = "trainmaster.retry.decided.v1"
    SUFFIX = "retry.decided"
    KIND = "state"
    AUTHOR = "watchdog"

    retry: bool
    reason: Sentence
    rule: str | None = None
    root_cause: Sentence | None = None
    replica: ReplicaRef | None = None
    line: str | None = None
    others: tuple[str, ...] = ()
    budget_left: int = 0
    not_before: Time | None = None


class Succeeded(Payload):
    """The job ended well."""

    TYPE = "trainmaster.job.succeeded.v1"
    SUFFIX = "succeeded"
    KIND = "state"
    AUTHOR = "scheduler"

    message: Sentence = ""


class Failed(Payload):
    """The job ended badly and there will be no further attempt."""

    TYPE = "trainmaster.job.failed.v1"
    SUFFIX = "failed"
    KIND = "state"
    AUTHOR = "scheduler"

    reason: str
    message: Sentence = ""


class Stopped(Payload):
    """The job ended because somebody asked for it."""

    TYPE = "trainmaster.job.stopped.v1"
    SUFFIX = "stopped"
    KIND = "state"
    AUTHOR = "scheduler"

    message: Sentence = ""


class Deleted(Payload):
    """The ended job was deleted; its name is free."""

    TYPE = "trainmaster.job.deleted.v1"
    SUFFIX = "deleted"
    KIND = "state"
    AUTHOR = "submitter"

    by: str


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

    `machines` has the machine whose agent answers for a node; a node that is missing is a machine of its own.
    """

    TYPE = "trainmaster.diagnosis.requested.v1"
    SUFFIX = "diagnosis.requested"
    KIND = "obs"
    AUTHOR = "scheduler"

    nodes: tuple[str, ...]
    machines: dict[str, str] = Field(default_factory=dict)


class DiagnosisFinished(Payload):
    """The outcome of a diagnosis: which nodes failed, and why."""

    TYPE = "trainmaster.diagnosis.finished.v1"
    SUFFIX = "diagnosis.finished"
    KIND = "obs"
    AUTHOR = "diagnoser"

    passed: bool
    bad_nodes: tuple[str, ...] = ()
    message: Sentence = ""
    findings: tuple[NodeFinding, ...] = ()


class IncidentRaised(Payload):
    """A rule matched: the line, what stood before it, and what is done about it.

    A silence has no replica, and a sentence for its line; `at` is when it was noticed.
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


class NameClaimed(Payload):
    """A user's job name belongs to this job."""

    TYPE = "trainmaster.name.claimed.v1"
    SUFFIX = "claimed"
    KIND = "name"
    AUTHOR = "submitter"

    name: str


class NameReleased(Payload):
    """The name is free again."""

    TYPE = "trainmaster.name.released.v1"
    SUFFIX = "released"
    KIND = "name"
    AUTHOR = "submitter"

    name: str


class LeaderElected(Payload):
    """A scheduler became the active one; the sequence of this event is its fence."""

    TYPE = "trainmaster.leader.elected.v1"
    SUFFIX = "elected"
    KIND = "epoch"
    AUTHOR = "scheduler"

    holder: str


class NodeReported(Payload):
    """What a node offers."""

    TYPE = "trainmaster.node.reported.v1"
    SUFFIX = "reported"
    KIND = "node"
    AUTHOR = "scheduler"

    cluster: str
    node: str
    cpu_millis: int
    memory_bytes: int
    gpu_model: str | None = None
    devices: tuple[str, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)


class Usage(Payload):
    """What a role used in one window of ten minutes; amounts are integers, in millionths of the one currency."""

    KIND = "usage"
    AUTHOR = "scheduler"

    job_name: str
    owner_name: str
    role: str
    phase: UsagePhase
    window_start: Time
    window_end: Time
    instance_type: str
    gpu_model: str | None = None
    gpu_count: int = 0
    pool: str
    pool_name: str
    price_micros_per_hour: int | None = None
    billable: bool
    replica_ms: int
    amount_micros: int


class UsageMetered(Usage):
    """The window is closed, or the attempt has ended: so much was used."""

    TYPE = "trainmaster.usage.metered.v1"
    SUFFIX = "usage.metered"


class UsageCorrected(Usage):
    """An earlier record is to count for more or less: `replicaMs` and `amountMicros` are to be added to it."""

    TYPE = "trainmaster.usage.corrected.v1"
    SUFFIX = "usage.corrected"

    corrects: tuple[str, ...]
    reason: Literal["platform", "late-facts"]


PAYLOADS: Final[tuple[type[Payload], ...]] = (
    Submitted,
    Queued,
    Placed,
    Admitted,
    Started,
    StopRequested,
    AttemptEnded,
    RetryDecided,
    Succeeded,
    Failed,
    Stopped,
    Deleted,
    ReplicasChanged,
    CodeResolved,
    DiagnosisRequested,
    DiagnosisFinished,
    IncidentRaised,
    NameClaimed,
    NameReleased,
    LeaderElected,
    NodeReported,
    UsageMetered,
    UsageCorrected,
)
PAYLOAD_OF_TYPE: Final[dict[str, type[Payload]]] = {payload.TYPE: payload for payload in PAYLOADS}
