"""A job and what hangs on it, as the job document (`GET /v1/jobs/{job}`) has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from trainmaster.decoding import Document, Fields
from trainmaster.documents.burn_in import BurnIn
from trainmaster.documents.progress import Progress
from trainmaster.errors import InputError

ENDED_STATES: Final = frozenset({"Succeeded", "Failed", "Stopped"})


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
    """One replica of an attempt: where it was placed and what became of it; `node` is its node's name."""

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
    """Something that was noticed while the attempt ran; `replica` is empty for a silence of all of them.

    `is_tried`: by a rule in mode `shadow`, which decides nothing.
    """

    rule: str
    line: str
    before: tuple[str, ...]
    replica: str
    action: str
    at: datetime | None
    is_tried: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen of a silent attempt, in a sentence; `digest` names the whole of it."""

    rule: str
    summary: str
    digest: str
    problems: tuple[str, ...]
    noticed_at: datetime | None
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
class Diagnosis:
    """The look at the nodes before the attempt; `problems` are those of each bad node, by its name.

    `doubts` are what may be wrong with the others; `untested` says why nodes were only looked at that have no pass.
    """

    requested_at: datetime | None
    finished_at: datetime | None
    passed: bool
    bad_nodes: tuple[str, ...]
    problems: Mapping[str, tuple[str, ...]]
    doubts: Mapping[str, tuple[str, ...]]
    untested: Mapping[str, str]
    node_count: int


@dataclass(frozen=True, slots=True)
class Replaced:
    """Nodes, by name, that left an attempt after a round of its diagnosis, and those that came for them."""

    at: datetime | None
    left: tuple[str, ...]
    taken: tuple[str, ...]
    reason: str


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
    diagnosis: Diagnosis | None
    replicas: tuple[Replica, ...]
    incidents: tuple[Incident, ...]
    evidence: tuple[Evidence, ...]
    decision: Decision | None
    progress: Progress | None = None
    burn_in: BurnIn | None = None
    replaced: tuple[Replaced, ...] = ()


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

    def only_attempt(self, number: int) -> Job:
        """The job with this attempt alone; raises InputError where it has none of this number."""
        chosen = tuple(attempt for attempt in self.attempts if attempt.number == number)
        if not chosen:
            raise InputError(f"{self.name} has no attempt {number}; there are 1 to {len(self.attempts)}")
        status = dict(self.document["status"])
        status["attempts"] = [each for each in status["attempts"] if each["number"] == number]
        return replace(self, attempts=chosen, document={**self.document, "status": status})

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
    decision, diagnosis = fields.fields("decision"), fields.fields("diagnosis")
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
        diagnosis=_diagnosis(diagnosis) if diagnosis.document else None,
        replicas=tuple(_replica(replica, places) for replica in fields.each("replicas")),
        incidents=tuple(_incident(incident) for incident in fields.each("incidents")),
        evidence=tuple(_evidence(evidence) for evidence in fields.each("evidence")),
        decision=_decision(decision) if decision.document else None,
        burn_in=BurnIn.of(burn_in) if (burn_in := fields.fields("burnIn")).document else None,
        progress=Progress.of(progress) if (progress := fields.fields("progress")).document else None,
        replaced=tuple(_replaced(each) for each in fields.each("replaced")),
    )


def _replaced(fields: Fields) -> Replaced:
    return Replaced(
        at=fields.time("at"), left=fields.texts("left"), taken=fields.texts("taken"), reason=fields.text("reason")
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
        node=fields.text("nodeName") or fields.text("node"),
        devices=tuple(str(device) for device in devices[index]) if index < len(devices) else (),
        started_at=fields.time("startedAt"),
        ended_at=fields.time("endedAt"),
        exit=ReplicaExit.of(ended) if ended.document else None,
    )


def _diagnosis(fields: Fields) -> Diagnosis:
    nodes = tuple(fields.each("nodes"))
    return Diagnosis(
        requested_at=fields.time("requestedAt"),
        finished_at=fields.time("finishedAt"),
        passed=fields.flag("passed"),
        bad_nodes=fields.texts("badNodes"),
        problems={node.text("nodeName"): node.texts("problems") for node in nodes if not node.flag("passed")},
        doubts={node.text("nodeName"): node.texts("doubts") for node in nodes if node.flag("passed")},
        untested={node.text("nodeName"): node.text("untested") for node in nodes if node.text("untested")},
        node_count=fields.integer("nodeCount", len(nodes)),
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
        is_tried=fields.text("mode") == "shadow",
    )


def _evidence(fields: Fields) -> Evidence:
    return Evidence(
        rule=fields.text("rule"),
        summary=fields.text("summary"),
        digest=fields.text("digest"),
        problems=fields.texts("problems"),
        noticed_at=fields.time("noticedAt"),
        at=fields.time("at"),
    )


def _replica_name(fields: Fields) -> str:
    return f"{fields.text('role')}-{fields.integer('index')}" if fields.document else ""
