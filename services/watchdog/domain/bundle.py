"""The evidence of a silent attempt as one document: what is kept in the object store and shown to the job's owner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from services.watchdog.domain.folding import Folded, RankLook, fold, ranks_of
from services.watchdog.domain.wording import describe, name_of
from shared.agent_evidence import GpuActivity, MachineLook, Process, ReplicaLook
from shared.events import EvidenceCollected, IncidentRaised, ReplicaRef, Time
from shared.jobs import Attempt, Job, Replica

SHOWN_OUTLIERS: Final = 20
SHOWN_PROBLEMS: Final = 20


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True)


class RankGroup(_Part):
    """Ranks with the same stack, the innermost frame first."""

    ranks: tuple[str, ...]
    doing: str
    frames: tuple[str, ...]


class ReplicaEvidence(_Part):
    """One replica: its processes, the last lines of its log, and what could not be looked at."""

    role: str
    index: int
    node: str
    machine: str
    state: str
    processes: tuple[Process, ...] = ()
    last_lines: tuple[str, ...] = ()
    problem: str = ""


class MachineGpus(_Part):
    """The GPUs of one machine, also those of other jobs: a pid tells whose work it is."""

    machine: str
    gpus: tuple[GpuActivity, ...]


class EvidenceBundle(_Part):
    """Everything."""

    job: str
    attempt: int
    rule: str
    line: str
    noticed_at: Time
    taken_at: Time
    summary: str
    groups: tuple[RankGroup, ...]
    outliers: tuple[str, ...]
    replicas: tuple[ReplicaEvidence, ...]
    gpus: tuple[MachineGpus, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found: each node's machine, the look at each machine or why there is none, last lines by replica."""

    machine_of: Mapping[str, str]
    looks: Mapping[str, MachineLook | str]
    last_lines: Mapping[str, tuple[str, ...]]


def bundle_of(job: Job, incident: IncidentRaised, looked: Looked, now: datetime) -> EvidenceBundle:
    """The bundle of what was found."""
    replicas = tuple(_replica(replica, looked) for replica in job.attempt.replicas.values())
    folded = fold(_ranks(job.attempt, replicas))
    return EvidenceBundle(
        job=job.id,
        attempt=job.attempt.number,
        rule=incident.rule,
        line=incident.line,
        noticed_at=incident.at or now,
        taken_at=now,
        summary=folded.summary,
        groups=_groups(folded),
        outliers=folded.outliers,
        replicas=replicas,
        gpus=tuple(MachineGpus(machine=machine, gpus=look.gpus) for machine, look in _seen(looked) if look.gpus),
        problems=tuple(_problems(looked)),
    )


def told_of(bundle: EvidenceBundle, digest: str | None, size_bytes: int) -> EvidenceCollected:
    """What goes on record of a bundle; without a digest it could not be kept."""
    return EvidenceCollected(
        rule=bundle.rule,
        noticed_at=bundle.noticed_at,
        at=bundle.taken_at,
        summary=bundle.summary,
        digest=digest,
        size_bytes=size_bytes,
        outliers=bundle.outliers[:SHOWN_OUTLIERS],
        problems=bundle.problems[:SHOWN_PROBLEMS],
    )


def _replica(replica: Replica, looked: Looked) -> ReplicaEvidence:
    machine = looked.machine_of.get(replica.node, replica.node)
    look = looked.looks.get(machine, "its machine was not asked")
    seen = _seen_of(replica, look) if isinstance(look, MachineLook) else None
    problem = look if isinstance(look, str) else seen.problem if seen else "its machine does not know it"
    name = name_of(_ref(replica))
    ended = replica.exit is not None
    return ReplicaEvidence(
        role=replica.role,
        index=replica.index,
        node=replica.where,
        machine=machine,
        state=describe(replica.exit) if replica.exit else replica.state.lower(),
        processes=seen.processes if seen else (),
        last_lines=looked.last_lines.get(name, ()),
        problem="" if ended else problem,
    )


def _seen_of(replica: Replica, look: MachineLook) -> ReplicaLook | None:
    return next((each for each in look.replicas if (each.role, each.index) == (replica.role, replica.index)), None)


def _ranks(attempt: Attempt, replicas: Iterable[ReplicaEvidence]) -> Iterable[RankLook]:
    for each in replicas:
        recorded = attempt.replica(each.role, each.index)
        if recorded is not None and recorded.exit is not None:
            yield RankLook(f"{each.role}-{each.index}", doing=f"gone: it {each.state}", suspicious=True)
        else:
            yield from ranks_of(ReplicaLook(each.role, each.index, each.processes, each.problem))


def _groups(folded: Folded) -> tuple[RankGroup, ...]:
    return tuple(RankGroup(ranks=each.ranks, doing=each.doing, frames=each.frames) for each in folded.groups)


def _seen(looked: Looked) -> list[tuple[str, MachineLook]]:
    return [(machine, look) for machine, look in looked.looks.items() if isinstance(look, MachineLook)]


def _problems(looked: Looked) -> Iterable[str]:
    for machine, look in looked.looks.items():
        problems = (look,) if isinstance(look, str) else look.problems
        yield from (f"machine {machine}: {problem}" for problem in problems)


def _ref(replica: Replica) -> ReplicaRef:
    return ReplicaRef(role=replica.role, index=replica.index)
