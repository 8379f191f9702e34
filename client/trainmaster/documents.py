"""What the platform says about jobs, as frozen values; each keeps or is made of one JSON document of the API.

`Job` and what hangs on it mirror the job document (`GET /v1/jobs/{job}`), `JobEvent` the CloudEvents of its history,
the `Log…` types the answers of `/v1/logs`, `Explanation` the one of `/v1/queue/{job}`. Catalog documents stay JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from trainmaster.decoding import Document, Fields

ENDED_STATES: Final = frozenset({"Succeeded", "Failed", "Stopped"})
_VERSION: Final = re.compile(r"\.v[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class ReplicaExit:
    """How a replica's command ended."""

    code: int | None
    signal: int | None
    out_of_memory: str
    cause: str
    message: str

    @classmethod
    def of(cls, fields: Fields) -> ReplicaExit:
        """The exit that a job document or an event describes."""
        return cls(
            code=fields.optional_integer("code"),
            signal=fields.optional_integer("signal"),
            out_of_memory=fields.text("outOfMemory", "none"),
            cause=fields.text("cause", "exited"),
            message=fields.text("message"),
        )


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica of an attempt: where it was placed and what became of it."""

    role: str
    index: int
    state: str
    pool: str
    node: str
    devices: tuple[str, ...]
    started_at: datetime | None
    ended_at: datetime | None
    exit: ReplicaExit | None

    @property
    def name(self) -> str:
        """`worker-0`."""
        return f"{self.role}-{self.index}"


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that was noticed while the attempt ran; `replica` is empty for a silence of all of them."""

    rule: str
    line: str
    before: tuple[str, ...]
    replica: str
    action: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided after an attempt: the rule that holds, the replica and line it saw, what the others said."""

    retry: bool
    reason: str
    rule: str
    replica: str
    line: str
    others: tuple[str, ...]
    budget_left: int
    not_before: datetime | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to run the job."""

    number: int
    cluster: str
    queued_at: datetime | None
    placed_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    end_reason: str
    message: str
    code_revision: str
    replicas: tuple[Replica, ...]
    incidents: tuple[Incident, ...]
    decision: Decision | None


@dataclass(frozen=True, slots=True)
class Job:
    """A job as the platform has it now; `document` is the API's own JSON."""

    id: str
    name: str
    owner: str
    project: str
    labels: tuple[str, ...]
    state: str
    reason: str
    message: str
    submitted_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    attempts: tuple[Attempt, ...]
    document: Document

    @property
    def ended(self) -> bool:
        """Whether nothing will happen to it any more."""
        return self.state in ENDED_STATES

    @property
    def spec(self) -> Fields:
        """The job's spec with its defaults filled in."""
        return Fields.of(self.document.get("spec") or {}, "/spec")

    @property
    def replica_count(self) -> int:
        """Replicas of all roles together."""
        return sum(role.integer("replicas", 1) for role in self.spec.each("roles"))

    @classmethod
    def of(cls, document: Document) -> Job:
        """The job that a job document describes."""
        fields = Fields.of(document)
        metadata, status = fields.fields("metadata"), fields.fields("status")
        return cls(
            id=metadata.text("id"),
            name=metadata.text("name"),
            owner=metadata.text("owner"),
            project=metadata.text("project"),
            labels=metadata.texts("labels"),
            state=status.text("state"),
            reason=status.text("reason"),
            message=status.text("message"),
            submitted_at=status.time("submittedAt") or metadata.time("createdAt"),
            started_at=status.time("startedAt"),
            ended_at=status.time("endedAt"),
            attempts=tuple(_attempt(attempt) for attempt in status.each("attempts")),
            document=document,
        )


def _attempt(fields: Fields) -> Attempt:
    placement = fields.fields("placement")
    places = {role.text("role"): role for role in placement.each("roles")}
    decision = fields.fields("decision")
    return Attempt(
        number=fields.integer("number"),
        cluster=placement.text("cluster"),
        queued_at=fields.time("queuedAt"),
        placed_at=fields.time("placedAt"),
        started_at=fields.time("startedAt"),
        ended_at=fields.time("endedAt"),
        end_reason=fields.text("endReason"),
        message=fields.text("message"),
        code_revision=fields.fields("code").text("revision"),
        replicas=tuple(_replica(replica, places) for replica in fields.each("replicas")),
        incidents=tuple(_incident(incident) for incident in fields.each("incidents")),
        decision=_decision(decision) if decision.document else None,
    )


def _replica(fields: Fields, places: Mapping[str, Fields]) -> Replica:
    role, index = fields.text("role"), fields.integer("index")
    place = places.get(role, Fields({}))
    devices = place.document.get("devices") or []
    ended = fields.fields("exit")
    return Replica(
        role=role,
        index=index,
        state=fields.text("state"),
        pool=place.text("pool"),
        node=fields.text("node"),
        devices=tuple(str(device) for device in devices[index]) if index < len(devices) else (),
        started_at=fields.time("startedAt"),
        ended_at=fields.time("endedAt"),
        exit=ReplicaExit.of(ended) if ended.document else None,
    )


def _decision(fields: Fields) -> Decision:
    return Decision(
        retry=fields.flag("retry"),
        reason=fields.text("reason"),
        rule=fields.text("rule"),
        replica=_replica_name(fields.fields("replica")),
        line=fields.text("line"),
        others=fields.texts("others"),
        budget_left=fields.integer("budgetLeft"),
        not_before=fields.time("notBefore"),
    )


def _incident(fields: Fields) -> Incident:
    return Incident(
        rule=fields.text("rule"),
        line=fields.text("line"),
        before=fields.texts("before"),
        replica=_replica_name(fields.fields("replica")),
        action=fields.text("action"),
        at=fields.time("at"),
    )


def _replica_name(fields: Fields) -> str:
    return f"{fields.text('role')}-{fields.integer('index')}" if fields.document else ""


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One event of a job's history; `name` is its type without the dressing: `attempt.ended`."""

    sequence: int
    name: str
    time: datetime | None
    attempt: int
    data: Fields
    document: Document

    @classmethod
    def of(cls, document: Document, sequence: int | None = None) -> JobEvent:
        """The event that a CloudEvent document describes."""
        fields = Fields.of(document)
        name = _VERSION.sub("", fields.text("type").removeprefix("trainmaster."))
        return cls(
            sequence=fields.integer("sequence") if sequence is None else sequence,
            name=name.removeprefix("job."),
            time=fields.time("time"),
            attempt=fields.integer("attempt", 1),
            data=fields.fields("data"),
            document=document,
        )

    @property
    def final_state(self) -> str | None:
        """The state in which the job ended, where this event ends it."""
        state = self.name.capitalize()
        return state if state in ENDED_STATES else None


@dataclass(frozen=True, slots=True)
class LogSource:
    """One replica's log."""

    attempt: int
    role: str
    index: int
    size_bytes: int
    ended: bool

    @property
    def name(self) -> str:
        """`worker-0`."""
        return f"{self.role}-{self.index}"

    @classmethod
    def of(cls, fields: Fields) -> LogSource:
        """The log that an entry of `/v1/logs/{job}` describes."""
        return cls(
            attempt=fields.integer("attempt"),
            role=fields.text("role"),
            index=fields.integer("index"),
            size_bytes=fields.integer("size"),
            ended=fields.flag("ended"),
        )


@dataclass(frozen=True, slots=True)
class LogPage:
    """Some bytes of a log, where they begin, and where the next page does."""

    content: bytes
    offset: int
    next_offset: int
    size_bytes: int
    ended: bool


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Some text of a replica's log; it may begin or end within a line."""

    attempt: int
    role: str
    index: int
    offset: int
    text: str

    @property
    def document(self) -> Document:
        """The chunk as the API sends it."""
        return {name: getattr(self, name) for name in ("attempt", "role", "index", "offset", "text")}

    @classmethod
    def of(cls, document: Any) -> LogChunk:
        """The chunk that a `chunk` event of the follow stream holds."""
        fields = Fields.of(document)
        return cls(
            attempt=fields.integer("attempt"),
            role=fields.text("role"),
            index=fields.integer("index"),
            offset=fields.integer("offset"),
            text=fields.text("text"),
        )


@dataclass(frozen=True, slots=True)
class ScalarPoint:
    """One value of a curve."""

    step: int
    value: float


@dataclass(frozen=True, slots=True)
class Curve:
    """The scalars that a job wrote under one tag."""

    tag: str
    points: tuple[ScalarPoint, ...]
    document: Document

    @classmethod
    def of(cls, fields: Fields) -> Curve:
        """One entry of the `tags` of `/v1/scalars/{job}`."""
        points = (ScalarPoint(point.integer("step"), point.number("value")) for point in fields.each("points"))
        return cls(fields.text("tag"), tuple(points), dict(fields.document))


@dataclass(frozen=True, slots=True)
class Blocker:
    """One resource that a waiting job lacks; amounts are millicores, bytes or counts, as the resource has it."""

    role: str
    resource: str
    needed: int
    available: int
    total: int
    detail: str

    @classmethod
    def of(cls, fields: Fields) -> Blocker:
        """One entry of an explanation's blockers."""
        needed, available, total = (fields.integer(name) for name in ("needed", "available", "total"))
        return cls(fields.text("role"), fields.text("resource"), needed, available, total, fields.text("detail"))


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job is not running, and what would help."""

    job: str
    state: str
    position: int | None
    summary: str
    blockers: tuple[Blocker, ...]
    suggestions: tuple[str, ...]
    document: Document

    @classmethod
    def of(cls, document: Document) -> Explanation:
        """The explanation that `/v1/queue/{job}` gives."""
        fields = Fields.of(document)
        return cls(
            job=fields.text("job"),
            state=fields.text("state"),
            position=fields.optional_integer("position"),
            summary=fields.text("summary"),
            blockers=tuple(map(Blocker.of, fields.each("blockers"))),
            suggestions=fields.texts("suggestions"),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class Page:
    """Some documents of a list; `cursor` leads to the next ones."""

    items: tuple[Document, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Applied:
    """A document that the platform took; `created` tells a new thing from a changed one."""

    kind: str
    name: str
    created: bool
    document: Document

    @property
    def id(self) -> str:
        """The id that the platform gave it."""
        return Fields.of(self.document).fields("metadata").text("id")


@dataclass(frozen=True, slots=True)
class Upload:
    """An archive that the platform keeps."""

    digest: str
    size_bytes: int
