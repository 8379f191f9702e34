"""What events are made of: placements, replicas and their ends, references resolved at submission."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

from shared.clock import rfc3339

MAX_SENTENCE_CHARS: Final = 4096

Verdict = Literal["green", "amber", "red"]

Time = Annotated[datetime, PlainSerializer(rfc3339, return_type=str)]


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SENTENCE_CHARS else text[: MAX_SENTENCE_CHARS - 1] + "…"


# What people read. It is cut, since an event that is too large cannot be written, and a job must not hang on a long
# error message of some library.
Sentence = Annotated[str, AfterValidator(_cut)]


class Fact(BaseModel):
    """Base of everything inside an event: camelCase in JSON, immutable, tolerant of fields it does not know."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")


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
    """Where a mount's data is; no link below `root` (a URI, too) may lead out of it."""

    mount_path: str
    type: str
    source: str
    uri: str
    root: str | None = None
    read_only: bool = False


class ResolvedImage(Fact):
    """The image as an address, and what opens its registry: the name of a secret that `owner` (a user name) may use."""

    source: str
    address: str
    pull_secret: str | None = None
    owner: str | None = None


class ResolvedCode(Fact):
    """What is laid at `/code`: an uploaded archive by digest, files inline in the spec, a directory, or a git commit.

    No link below `root` (a URI) may lead a directory out of it. `revision` is what the spec asks for; the commit that
    it means is settled at the start of each attempt. `secret` is the name of one that `owner` (a user name) may use.
    """

    kind: Literal["upload", "inline", "directory", "git"]
    digest: str | None = None
    uri: str | None = None
    root: str | None = None
    revision: str | None = None
    username: str | None = None
    secret: str | None = None
    owner: str | None = None


class Resolved(Fact):
    """Every reference of a spec, looked up once at submission; later changes of the catalog do not touch the job."""

    cluster: str
    roles: tuple[ResolvedRole, ...]
    mounts: tuple[ResolvedMount, ...] = ()
    image: ResolvedImage | None = None
    code: ResolvedCode | None = None


class RolePlacement(Fact):
    """Where a role's replicas run: replica `i` on `nodes[node_of[i]]`, with the devices `devices[i]`.

    `node_names` are the names of `nodes` at that time; empty in records from before there were any, and in very large
    ones.
    """

    role: str
    pool: str
    nodes: tuple[str, ...]
    node_of: tuple[int, ...]
    node_names: tuple[str, ...] = ()
    devices: tuple[tuple[str, ...], ...] = ()

    def node(self, index: int) -> str:
        """Node of the replica with this index."""
        return self.nodes[self.node_of[index]]

    def node_name(self, index: int) -> str:
        """Name of the node of the replica with this index, or its id where no name is known."""
        return self.node_names[self.node_of[index]] if self.node_names else self.node(index)

    def devices_of(self, index: int) -> tuple[str, ...]:
        """GPU device ids of the replica with this index; none for CPU-only roles."""
        return self.devices[index] if self.devices else ()


class OutOfMemory(StrEnum):
    """How sure it is that a replica died of memory."""

    NONE = "none"
    SUSPECTED = "suspected"
    CERTAIN = "certain"


class ReplicaExit(Fact):
    """How a replica ended: an exit code, or a signal, or neither where the engine lost it (`cause` says why).

    One that is `displaced` never started, as others had taken its place in the meantime; another place may be found.
    """

    code: int | None = None
    signal: int | None = None
    out_of_memory: OutOfMemory = OutOfMemory.NONE
    cause: Literal["exited", "stopped", "lost", "never-started"] = "exited"
    message: Sentence = ""
    displaced: bool = False

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


class Progress(Fact):
    """How far training had come, as far as its logs told: the last epoch and step that were printed."""

    epoch: int = 0
    step: int = 0


class Cause(Fact):
    """The root cause of the end of an attempt: a rule of the catalogue or a fact (`fact/…`), its class, and where.

    `at` is corrected for the clock of the node. Ends with the same `fingerprint` ended in the same way.
    """

    rule: str
    failure_class: str = Field(alias="class")
    advice: Sentence = ""
    replica: ReplicaRef | None = None
    node: str | None = None
    line: str | None = None
    at: Time | None = None
    fingerprint: str | None = None


class NodeFinding(Fact):
    """What a diagnosis found on one node: figures as they were measured, and what is wrong in words.

    `doubts` are failures that may be this node's, and are not enough to say so. The verdict is green where there is
    neither, amber for doubts and a first problem, red for what was seen twice. `untested` says why the node was only
    looked at although it has no pass: a job is on it, or its tests were broken off.
    """

    node: str
    problems: tuple[Sentence, ...] = ()
    figures: dict[str, float] = {}
    doubts: tuple[Sentence, ...] = ()
    verdict: Verdict | None = None
    untested: Sentence = ""


class UsagePhase(StrEnum):
    """What replicas that hold capacity were doing; only running ones are billed."""

    DIAGNOSING = "diagnosing"
    STARTING = "starting"
    RUNNING = "running"


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
