"""The job document that the API answers with, made of a folded job.

`JobDocument` is public API: its fields are those of the contract, in camelCase. Lists leave out what grows with the
number of replicas (placements and replicas), the detail of one job has all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, JsonValue

from services.submitter.domain.answers import Answer
from services.submitter.domain.diagnosis_documents import Diagnosis, ReplacedNodes
from shared.events import (
    BurnInJudged,
    EvidenceCollected,
    IncidentRaised,
    ProgressReported,
    ReplicaExit,
    ReplicaRef,
    Resolved,
    ResolvedCode,
    RetryDecided,
    RolePlacement,
    Time,
)
from shared.jobs import Attempt, Job, JobState, Replica, ReplicaState
from shared.jobspec.models import API_VERSION


class JobMetadata(Answer):
    """What the job is called, whose it is, and its version (the ETag)."""

    id: str
    name: str
    generate_name: str | None
    owner: str
    project: str
    labels: list[str]
    created_at: Time
    sequence: int


class RolePlace(Answer):
    """Where a role's replicas run, by index."""

    role: str
    pool: str
    nodes: list[str]
    node_names: list[str]
    devices: list[list[str]]

    @classmethod
    def of(cls, placement: RolePlacement, pools: Mapping[str, str]) -> Self:
        """The placement, written out by index; `pools` are the names of pools by their ids."""
        indices = range(len(placement.node_of))
        return cls(
            role=placement.role,
            pool=pools.get(placement.pool, placement.pool),
            nodes=[placement.node(index) for index in indices],
            node_names=[placement.node_name(index) for index in indices],
            devices=[list(placement.devices_of(index)) for index in indices],
        )


class Placement(Answer):
    """Where an attempt runs."""

    cluster: str
    roles: list[RolePlace]


class ExitStatus(Answer):
    """How a replica ended."""

    code: int | None
    signal: int | None
    out_of_memory: str
    cause: str
    message: str

    @classmethod
    def of(cls, status: ReplicaExit) -> Self:
        """The exit as the API tells it."""
        return cls(
            code=status.code,
            signal=status.signal,
            out_of_memory=status.out_of_memory,
            cause=status.cause,
            message=status.message,
        )


class ReplicaStatus(Answer):
    """One replica of an attempt."""

    role: str
    index: int
    node: str
    node_name: str
    state: ReplicaState
    started_at: Time | None
    ended_at: Time | None
    exit: ExitStatus | None

    @classmethod
    def of(cls, replica: Replica) -> Self:
        """The replica as the API tells it."""
        return cls(
            role=replica.role,
            index=replica.index,
            node=replica.node,
            node_name=replica.where,
            state=replica.state,
            started_at=replica.started_at,
            ended_at=replica.ended_at,
            exit=ExitStatus.of(replica.exit) if replica.exit else None,
        )


class CodeVersion(Answer):
    """Exactly which code an attempt ran: a digest, or a commit of a repository."""

    kind: str
    uri: str | None
    digest: str | None
    revision: str | None

    @classmethod
    def of(cls, code: ResolvedCode, attempt: Attempt) -> Self:
        """The version as the API tells it; a commit is known once the attempt has been prepared."""
        commit = attempt.code.revision if attempt.code else None
        return cls(kind=code.kind, uri=code.uri, digest=code.digest, revision=commit)


class SlowRank(Answer):
    """A rank that held the others up: what a step of it took, what those of the others took in the middle, and why."""

    role: str
    index: int
    rank: int
    node: str
    node_name: str
    compute_ms: float
    middle_ms: float
    windows: int
    why: str


class BurnIn(Answer):
    """What the first steps of the attempt say of its ranks; the attempt is left alone whatever that is.

    `source` is hook, log or scalars. Where nothing could be compared `message` says why.
    """

    source: str
    ranks: int
    last_step: int
    middle_ms: float | None
    suspects: list[SlowRank]
    message: str

    @classmethod
    def of(cls, burn_in: BurnInJudged | None, attempt: Attempt) -> Self | None:
        """The verdict as the API tells it; None where there is none."""
        if burn_in is None:
            return None
        names = {replica.node: replica.where for replica in attempt.replicas.values()}
        suspects = [
            SlowRank(**each.model_dump(), node_name=names.get(each.node, each.node)) for each in burn_in.suspects
        ]
        return cls(**{**burn_in.model_dump(), "suspects": suspects})


class ReplicaName(Answer):
    """Which replica of the attempt."""

    role: str
    index: int

    @classmethod
    def of(cls, replica: ReplicaRef | None) -> Self | None:
        """The replica as the API tells it."""
        return cls(role=replica.role, index=replica.index) if replica else None


class Incident(Answer):
    """Something that was noticed while the attempt ran; a silence is of no single replica."""

    rule: str
    mode: Literal["active", "shadow"]
    line: str
    before: list[str]
    replica: ReplicaName | None
    action: str
    at: Time | None

    @classmethod
    def of(cls, incident: IncidentRaised) -> Self:
        """The incident as the API tells it."""
        return cls(
            rule=incident.rule,
            mode=incident.mode,
            line=incident.line,
            before=list(incident.before),
            replica=ReplicaName.of(incident.replica),
            action=incident.action,
            at=incident.at,
        )


class Progress(Answer):
    """How far an attempt was when it was last told; what is not known is null."""

    at: Time
    step: int | None
    total_steps: int | None
    within_epoch: bool
    epoch: float | None
    total_epochs: int | None
    loss: float | None
    steps_per_second: float | None
    fraction: float | None
    estimated_end: Time | None

    @classmethod
    def of(cls, progress: ProgressReported | None) -> Self | None:
        """The progress as the API tells it."""
        return cls.model_validate(progress.model_dump()) if progress is not None else None


class Evidence(Answer):
    """What was taken of a silent attempt, in a sentence; `GET /v1/incidents/evidence/{job}/{digest}` has all of it."""

    rule: str
    noticed_at: Time
    at: Time
    summary: str
    digest: str | None
    size_bytes: int
    outliers: list[str]
    problems: list[str]

    @classmethod
    def of(cls, evidence: EvidenceCollected) -> Self:
        """The evidence as the API tells it."""
        return cls.model_validate(evidence.model_dump())


class Decision(Answer):
    """What was decided after an attempt: the rule that holds, the replica and line it saw, what the others said."""

    retry: bool
    reason: str
    rule: str | None
    root_cause: str | None
    replica: ReplicaName | None
    line: str | None
    others: list[str]
    budget_left: int
    not_before: Time | None

    @classmethod
    def of(cls, decision: RetryDecided) -> Self:
        """The decision as the API tells it."""
        return cls(
            retry=decision.retry,
            reason=decision.reason,
            rule=decision.rule,
            root_cause=decision.root_cause,
            replica=ReplicaName.of(decision.replica),
            line=decision.line,
            others=list(decision.others),
            budget_left=decision.budget_left,
            not_before=decision.not_before,
        )


class AttemptStatus(Answer):
    """One try to run the job."""

    number: int
    queued_at: Time
    placed_at: Time | None
    started_at: Time | None
    ended_at: Time | None
    end_reason: str | None
    message: str
    placement: Placement | None
    code: CodeVersion | None
    diagnosis: Diagnosis | None
    burn_in: BurnIn | None
    replaced: list[ReplacedNodes]
    replicas: list[ReplicaStatus]
    incidents: list[Incident]
    progress: Progress | None
    evidence: list[Evidence]
    decision: Decision | None

    @classmethod
    def of(cls, attempt: Attempt, resolved: Resolved, *, detailed: bool) -> Self:
        """The attempt; without placement, diagnosis, burn-in, replicas and incidents where a list is made."""
        placed, ended = attempt.placement, attempt.ended
        pools = {role.pool: role.pool_name for role in resolved.roles}
        replicas = attempt.replicas.values() if detailed else ()
        incidents = attempt.incidents if detailed else ()
        placement = (
            Placement(cluster=placed.cluster, roles=[RolePlace.of(role, pools) for role in placed.roles])
            if placed and detailed
            else None
        )
        return cls(
            number=attempt.number,
            queued_at=attempt.queued_at,
            placed_at=attempt.placed_at,
            started_at=attempt.started_at,
            ended_at=attempt.ended_at,
            end_reason=ended.reason if ended else None,
            message=ended.message if ended else "",
            placement=placement,
            code=CodeVersion.of(resolved.code, attempt) if resolved.code else None,
            diagnosis=Diagnosis.of(attempt) if detailed else None,
            burn_in=BurnIn.of(attempt.burn_in, attempt) if detailed else None,
            replaced=[ReplacedNodes.of(each) for each in attempt.replaced] if detailed else [],
            replicas=[ReplicaStatus.of(replica) for replica in replicas],
            incidents=[Incident.of(incident) for incident in incidents],
            progress=Progress.of(attempt.progress),
            evidence=[Evidence.of(each) for each in attempt.evidence] if detailed else [],
            decision=Decision.of(attempt.decision) if attempt.decision else None,
        )


class JobStatus(Answer):
    """Where the job stands."""

    state: JobState
    reason: str
    message: str
    attempt: int
    submitted_at: Time
    started_at: Time | None
    ended_at: Time | None
    attempts: list[AttemptStatus]


class JobDocument(Answer):
    """A job as the API tells it."""

    api_version: Literal["trainmaster/v1"] = API_VERSION
    kind: Literal["TrainingJob"] = "TrainingJob"
    metadata: JobMetadata
    spec: dict[str, JsonValue] = Field(description="the spec as it was submitted, with every default filled in")
    status: JobStatus

    @classmethod
    def of(cls, job: Job, *, detailed: bool = True) -> Self:
        """The document of a folded job."""
        metadata = JobMetadata(
            id=job.id,
            name=job.name,
            generate_name=job.submitted.generate_name,
            owner=job.submitted.owner_name,
            project=job.project,
            labels=list(job.submitted.labels),
            created_at=job.submitted_at,
            sequence=job.sequence,
        )
        return cls(metadata=metadata, spec=job.submitted.spec, status=_status_of(job, detailed=detailed))


def _status_of(job: Job, *, detailed: bool) -> JobStatus:
    return JobStatus(
        state=job.state,
        reason=job.reason,
        message=job.message,
        attempt=job.attempt.number,
        submitted_at=job.submitted_at,
        started_at=next((attempt.started_at for attempt in job.attempts if attempt.started_at), None),
        ended_at=job.ended_at,
        attempts=[AttemptStatus.of(attempt, job.submitted.resolved, detailed=detailed) for attempt in job.attempts],
    )
