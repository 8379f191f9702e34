"""The transitions of a job: what changes its state, published one after the other under compare-and-set."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from shared.events.facts import (
    Cause,
    EndReason,
    Progress,
    ReplicaExit,
    ReplicaRef,
    Resolved,
    RolePlacement,
    Sentence,
    Time,
)
from shared.events.payloads.base import Payload


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


class PlacementChanged(Payload):
    """Other nodes took the place of some that failed their diagnosis, or were doubtful; only the new ones are tested.

    `roles` are the whole gang's, as it is placed now. `left` went, `taken` are the nodes of the replicas that moved,
    `names` what people call both. `round` is that of the diagnosis which begins: the first of an attempt is 1.
    """

    TYPE = "trainmaster.placement.changed.v1"
    SUFFIX = "placement.changed"
    KIND = "state"
    AUTHOR = "scheduler"

    roles: tuple[RolePlacement, ...]
    left: tuple[str, ...]
    taken: tuple[str, ...]
    names: dict[str, str] = Field(default_factory=dict)
    round: int
    reason: Sentence = ""

    @property
    def part(self) -> str:
        """Nodes may be replaced more than once."""
        return str(self.round)


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


class PreemptionRequested(Payload):
    """The attempt makes room for a job of higher priority: its replicas are told to stop, and it is queued again."""

    TYPE = "trainmaster.preemption.requested.v1"
    SUFFIX = "preemption.requested"
    KIND = "state"
    AUTHOR = "scheduler"

    by: str
    priority: int
    message: Sentence = ""


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
    """Whether there will be another attempt, and why: the rule that decided, and the replica and line that it saw.

    `cause` is the root cause, where one was found. `checkpoint` is the furthest file that the attempt saved, below its
    checkpoint directory. `charged` says whose budget a retry uses; the next attempt gets none of `exclude_nodes`.
    """

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
    cause: Cause | None = None
    progress: Progress | None = None
    checkpoint: str | None = None
    charged: Literal["job", "platform"] = "job"
    exclude_nodes: tuple[str, ...] = ()


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
