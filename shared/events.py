"""The facts that services tell each other: a pydantic model for each event, and the CloudEvents envelope around it.

An event is CloudEvents 1.0 in structured JSON. Its payload class says all there is to know about the kind of fact:
`TYPE` (`trainmaster.<noun>.<past tense>.v1`), `SUFFIX` (the end of its subject), `KIND` (a *state* event is a
transition and is published under compare-and-set; an *obs* event is an observation and is not) and `AUTHOR` (the one
service that may say it). `Event.of` builds an event whose id is made of job, attempt and token, so that a repeated
publish is the same event.

Consumers ignore fields and types they do not know: `decode` gives them an `Unknown` payload. An incompatible change
is a new `TYPE` with a higher version; the schemas and golden samples in `docs/schemas` and `tests/golden` see to it.
"""

from __future__ import annotations

import json
from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PlainSerializer, SerializeAsAny, ValidationError
from pydantic.alias_generators import to_camel

from shared.clock import rfc3339
from shared.errors import TrainmasterError
from shared.units import KIB

MAX_EVENT_BYTES: Final = 256 * KIB
CONTENT_TYPE: Final = "application/cloudevents+json"


Time = Annotated[datetime, PlainSerializer(rfc3339, return_type=str)]
Author = Literal["submitter", "scheduler", "watchdog", "diagnoser", "logs"]
Kind = Literal["state", "obs", "name", "epoch", "node"]


class EventError(TrainmasterError):
    """Bytes that are no event, or an event that is too large."""

    code = "malformed"


class Fact(BaseModel):
    """Base of everything inside an event: camelCase in JSON, immutable, tolerant of fields it does not know."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")


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


# --- what a job is made of -------------------------------------------------------------------------------------------


class ResolvedRole(Fact):
    """A role's pool and instance type as they were at submission; the price is the one that will be billed."""

    name: str
    pool: str
    pool_name: str
    instance_type: str
    cpu_millis: int
    memory_bytes: int
    gpu_model: str | None = None
    gpu_count: int = 0
    price_micros_per_hour: int | None = None


class ResolvedMount(Fact):
    """Where a mount's data is."""

    mount_path: str
    type: str
    source: str
    uri: str
    read_only: bool = False


class ResolvedImage(Fact):
    """The image as an address."""

    source: str
    address: str


class ResolvedCode(Fact):
    """What is laid at `/code`: an uploaded archive by digest, files inline in the spec, or a directory."""

    kind: Literal["upload", "inline", "directory"]
    digest: str | None = None
    uri: str | None = None
    revision: str | None = None


class Resolved(Fact):
    """Every reference of a spec, looked up once at submission; later changes of the catalog do not touch the job."""

    cluster: str
    roles: tuple[ResolvedRole, ...]
    mounts: tuple[ResolvedMount, ...] = ()
    image: ResolvedImage | None = None
    code: ResolvedCode | None = None


class RolePlacement(Fact):
    """Where a role's replicas run: replica `i` on `nodes[node_of[i]]`, with the devices `devices[i]`."""

    role: str
    pool: str
    nodes: tuple[str, ...]
    node_of: tuple[int, ...]
    devices: tuple[tuple[str, ...], ...] = ()

    def node(self, index: int) -> str:
        """Node of the replica with this index."""
        return self.nodes[self.node_of[index]]

    def devices_of(self, index: int) -> tuple[str, ...]:
        """GPU device ids of the replica with this index; none for CPU-only roles."""
        return self.devices[index] if self.devices else ()


class OutOfMemory(StrEnum):
    """How sure it is that a replica died of memory."""

    NONE = "none"
    SUSPECTED = "suspected"
    CERTAIN = "certain"


class ReplicaExit(Fact):
    """How a replica ended: an exit code, or a signal, or neither where the engine lost it (`cause` says why)."""

    code: int | None = None
    signal: int | None = None
    out_of_memory: OutOfMemory = OutOfMemory.NONE
    cause: Literal["exited", "stopped", "lost", "never-started"] = "exited"
    message: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether the command ended by itself with exit code 0."""
        return self.code == 0 and self.cause == "exited"


class ReplicaChange(Fact):
    """One replica started or exited."""

    role: str
    index: int
    state: Literal["started", "exited"]
    at: Time
    node: str = ""
    exit: ReplicaExit | None = None


class ReplicaRef(Fact):
    """A replica of the attempt that the event is about."""

    role: str
    index: int


class EndReason(StrEnum):
    """Why an attempt ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    DIAGNOSIS = "diagnosis"
    HANG = "hang"
    START_TIMEOUT = "start-timeout"
    MAX_RUN_TIME = "max-run-time"
    PREEMPTED = "preempted"
    STOPPED = "stopped"
    PLATFORM = "platform"


# --- transitions of a job --------------------------------------------------------------------------------------------


class Submitted(Payload):
    """A job was accepted: its spec with defaults filled in, and every reference resolved."""

    TYPE = "trainmaster.job.submitted.v1"
    SUFFIX = "submitted"
    KIND = "state"
    AUTHOR = "submitter"

    name: str
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
    master_port: int = 23456
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
    reason: str = ""


class AttemptEnded(Payload):
    """The end of every replica of the attempt is confirmed."""

    TYPE = "trainmaster.attempt.ended.v1"
    SUFFIX = "attempt.ended"
    KIND = "state"
    AUTHOR = "scheduler"

    reason: EndReason
    message: str = ""
    first_failure: ReplicaRef | None = None
    exit: ReplicaExit | None = None


class RetryDecided(Payload):
    """Whether there will be another attempt, and why."""

    TYPE = "trainmaster.retry.decided.v1"
    SUFFIX = "retry.decided"
    KIND = "state"
    AUTHOR = "watchdog"

    retry: bool
    reason: str
    rule: str | None = None
    root_cause: str | None = None
    replica: ReplicaRef | None = None
    others: tuple[str, ...] = ()
    budget_left: int = 0
    not_before: Time | None = None


class Succeeded(Payload):
    """The job ended well."""

    TYPE = "trainmaster.job.succeeded.v1"
    SUFFIX = "succeeded"
    KIND = "state"
    AUTHOR = "scheduler"

    message: str = ""


class Failed(Payload):
    """The job ended badly and there will be no further attempt."""

    TYPE = "trainmaster.job.failed.v1"
    SUFFIX = "failed"
    KIND = "state"
    AUTHOR = "scheduler"

    reason: str
    message: str = ""


class Stopped(Payload):
    """The job ended because somebody asked for it."""

    TYPE = "trainmaster.job.stopped.v1"
    SUFFIX = "stopped"
    KIND = "state"
    AUTHOR = "scheduler"

    message: str = ""


class Deleted(Payload):
    """The ended job was deleted; its name is free."""

    TYPE = "trainmaster.job.deleted.v1"
    SUFFIX = "deleted"
    KIND = "state"
    AUTHOR = "submitter"

    by: str


# --- observations of a job -------------------------------------------------------------------------------------------


class ReplicasChanged(Payload):
    """Replicas started or exited since the last such event; at most a second late."""

    TYPE = "trainmaster.replicas.changed.v1"
    SUFFIX = "replicas.changed"
    KIND = "obs"
    AUTHOR = "scheduler"

    changes: tuple[ReplicaChange, ...]


class DiagnosisRequested(Payload):
    """The placed nodes are to be checked before user code runs."""

    TYPE = "trainmaster.diagnosis.requested.v1"
    SUFFIX = "diagnosis.requested"
    KIND = "obs"
    AUTHOR = "scheduler"

    nodes: tuple[str, ...]


class DiagnosisFinished(Payload):
    """The outcome of a diagnosis: which nodes failed, and why."""

    TYPE = "trainmaster.diagnosis.finished.v1"
    SUFFIX = "diagnosis.finished"
    KIND = "obs"
    AUTHOR = "diagnoser"

    passed: bool
    bad_nodes: tuple[str, ...] = ()
    message: str = ""


class IncidentRaised(Payload):
    """A rule matched: the line, what stood before it, and what is done about it."""

    TYPE = "trainmaster.incident.raised.v1"
    SUFFIX = "incident.raised"
    KIND = "obs"
    AUTHOR = "watchdog"

    rule: str
    line: str
    before: tuple[str, ...] = ()
    replica: ReplicaRef | None = None
    action: Literal["none", "stop"] = "none"


# --- names, leadership, nodes ----------------------------------------------------------------------------------------


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
    DiagnosisRequested,
    DiagnosisFinished,
    IncidentRaised,
    NameClaimed,
    NameReleased,
    LeaderElected,
    NodeReported,
)
PAYLOAD_OF_TYPE: Final[dict[str, type[Payload]]] = {payload.TYPE: payload for payload in PAYLOADS}


class Event(BaseModel):
    """A CloudEvent. `subject` is the job id (or the node's, or the leadership's name)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    specversion: Literal["1.0"] = "1.0"
    id: str
    source: str
    type: str
    subject: str
    time: Time
    datacontenttype: str = "application/json"
    traceparent: str | None = None
    causationid: str | None = None
    owner: str | None = None
    project: str | None = None
    attempt: int | None = None
    data: SerializeAsAny[Payload]

    @classmethod
    def of(
        cls,
        payload: Payload,
        *,
        job: str,
        attempt: int,
        time: datetime,
        owner: str,
        project: str,
        part: str = "",
        causation: str | None = None,
        traceparent: str | None = None,
    ) -> Self:
        """Event about a job; `part` tells apart several events of one kind in one attempt (observations)."""
        event_id = f"{job}/{attempt}/{payload.SUFFIX}" + (f"/{part}" if part else "")
        return cls(
            id=event_id,
            source=f"/trainmaster/{payload.AUTHOR}",
            type=payload.TYPE,
            subject=job,
            time=time,
            traceparent=traceparent,
            causationid=causation,
            owner=owner,
            project=project,
            attempt=attempt,
            data=payload,
        )

    @property
    def message_id(self) -> str:
        """What JetStream recognises a repeated publish by."""
        return f"{self.source}/{self.id}"

    def same_fact(self, other: Event) -> bool:
        """Whether both say the same: a writer whose publish was refused may find its own event already there."""
        return (self.id, self.source, self.type) == (other.id, other.source, other.type) and self.data == other.data


def encode(event: Event) -> bytes:
    """JSON of an event; raises EventError where it is larger than `MAX_EVENT_BYTES`."""
    body = event.model_dump_json(by_alias=True, exclude_none=True).encode()
    if len(body) > MAX_EVENT_BYTES:
        raise EventError(f"event {event.id} has {len(body)} bytes; at most {MAX_EVENT_BYTES} are allowed")
    return body


def decode(body: bytes) -> Event:
    """Event of its JSON; an unknown type gets an `Unknown` payload; raises EventError where the bytes are no event."""
    try:
        document = json.loads(body)
        payload = PAYLOAD_OF_TYPE.get(document.get("type"), Unknown).model_validate(document.get("data") or {})
        return Event.model_validate({**document, "data": payload})
    except (ValueError, AttributeError, ValidationError) as error:
        raise EventError(f"no event: {error}") from error


def subject_of(event: Event) -> str:
    """Subject under which an event about a job is published."""
    return f"tm.job.{event.subject}.{event.data.KIND}.{event.data.SUFFIX}"
