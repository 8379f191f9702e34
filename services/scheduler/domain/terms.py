"""The terms of a job that the scheduler acts on, read once from its spec; and its time limits as instants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Self

from services.scheduler.domain.gang import Gang, Level, RoleAsk, Topology
from services.scheduler.domain.nodes import Request
from shared.events import ResolvedRole
from shared.jobs import Attempt, Job
from shared.jobspec import models
from shared.jobspec.models import TrainingSpec

LAST_WORDS_S: Final = 10.0
DIAGNOSIS_S: Final = 600.0
# How often nodes of one attempt are replaced that its diagnosis speaks against.
REPLACEMENTS_MAX: Final = 2
EVIDENCE_S: Final = 60.0
_ROLE_RULE: Final = "role:"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a job's spec says about placing, starting, completing and stopping it."""

    roles: tuple[RoleAsk, ...]
    excluded_nodes: frozenset[str]
    deciding_roles: frozenset[str]
    start_timeout_s: float
    max_run_time_s: float | None
    grace_s: float
    diagnosing: bool = False
    preemptible: bool = False
    topology: Topology = field(default_factory=Topology)

    @property
    def longest_s(self) -> float | None:
        """How long an attempt can hold its place at most; None where nothing limits it."""
        if self.max_run_time_s is None:
            return None
        return self.max_run_time_s + self.overhead_s

    @property
    def overhead_s(self) -> float:
        """How long an attempt can hold its place beside the time that it runs."""
        return self.start_timeout_s + self.grace_s + (self._diagnosis_s if self.diagnosing else 0)

    @property
    def _diagnosis_s(self) -> float:
        return (REPLACEMENTS_MAX + 1) * self.round_s

    @property
    def round_s(self) -> float:
        """How long one round of a diagnosis may take."""
        return min(self.start_timeout_s, DIAGNOSIS_S)

    @classmethod
    def of(cls, job: Job) -> Self:
        """The terms of a job; raises pydantic's ValidationError where this version cannot read its spec."""
        spec = TrainingSpec.model_validate(job.submitted.spec)
        resolved = {role.name: role for role in job.submitted.resolved.roles}
        rule = spec.completion.succeed_when
        return cls(
            roles=tuple(_ask(resolved[role.name], role.replicas) for role in spec.roles),
            excluded_nodes=frozenset(spec.exclude_nodes),
            deciding_roles=frozenset({rule.removeprefix(_ROLE_RULE)} if rule.startswith(_ROLE_RULE) else resolved),
            start_timeout_s=spec.start_timeout_s,
            max_run_time_s=spec.max_run_time_s,
            grace_s=spec.termination_grace_s,
            diagnosing=spec.diagnosis is not None and spec.diagnosis.enabled,
            preemptible=spec.preemptible,
            topology=_topology(spec.topology),
        )

    def gang(self, job: Job) -> Gang:
        """The present attempt as a gang that asks for a place."""
        return Gang(
            job=job.id,
            attempt=job.attempt.number,
            priority=job.submitted.priority,
            sequence=job.submitted_sequence,
            roles=self.roles,
            excluded=self.excluded_nodes,
            project=job.project,
            owner=job.owner,
            since=job.attempt.queued_at,
            topology=self.topology,
            longest_s=self.longest_s,
            failed_diagnosis=frozenset(node for attempt in job.attempts for node in _found_bad(attempt)),
            suspected=_suspected(job),
        )

    def start_deadline(self, placed_at: datetime) -> datetime:
        """When a placed gang that is not wholly running has taken too long."""
        return placed_at + timedelta(seconds=self.start_timeout_s)

    def diagnosis_deadline(self, began_at: datetime) -> datetime:
        """When a round of a diagnosis of which nothing is heard has taken too long."""
        return began_at + timedelta(seconds=self.round_s)

    def run_deadline(self, started_at: datetime) -> datetime | None:
        """When a running attempt has had its time; None where it has no limit."""
        return None if self.max_run_time_s is None else started_at + timedelta(seconds=self.max_run_time_s)


def last_words_deadline(failed_at: datetime) -> datetime:
    """When the survivors of a failed replica are told to stop, after they had time to say what they saw."""
    return failed_at + timedelta(seconds=LAST_WORDS_S)


def hang_deadline(noticed_at: datetime) -> datetime:
    """When a hung attempt is ended of which no evidence has come."""
    return noticed_at + timedelta(seconds=EVIDENCE_S)


def _suspected(job: Job) -> frozenset[str]:
    """Nodes that the decision about the last attempt leaves out of this one."""
    decision = job.attempts[-2].decision if len(job.attempts) > 1 else None
    return frozenset(decision.exclude_nodes) if decision is not None else frozenset()


def _found_bad(attempt: Attempt) -> Iterator[str]:
    """Nodes that failed in any round of the attempt's diagnosis."""
    for found in (attempt.diagnosis, *(each.diagnosis for each in attempt.replaced)):
        yield from found.bad_nodes if found else ()


def _topology(wanted: models.Topology | None) -> Topology:
    return Topology(Level(wanted.level), wanted.mode == "hard") if wanted else Topology()


def _ask(role: ResolvedRole, replicas: int) -> RoleAsk:
    request = Request(role.cpu_millis, role.memory_bytes, role.gpu_count, role.gpu_model or "")
    return RoleAsk(role.name, replicas, role.pool_name, request)
