"""One attempt of a job as its events tell it: where it is placed, what its replicas did, how it ended.

These are records and nothing else; `shared.jobs` folds events into them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

from shared import events as ev

ReplicaState = Literal["Pending", "Running", "Succeeded", "Failed", "Stopped"]


class Record(BaseModel):
    """Base of what events are folded into."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def but(self, **changes: object) -> Self:
        """A copy with some fields changed to values that are valid already; folding does little else."""
        changed = type(self).__new__(type(self))
        object.__setattr__(changed, "__dict__", {**self.__dict__, **changes})
        object.__setattr__(changed, "__pydantic_fields_set__", self.__pydantic_fields_set__ | changes.keys())
        object.__setattr__(changed, "__pydantic_extra__", None)
        object.__setattr__(changed, "__pydantic_private__", None)
        return changed


class Replica(Record):
    """One replica of an attempt, as far as it was observed."""

    role: str
    index: int
    node: str = ""
    node_name: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit: ev.ReplicaExit | None = None

    @property
    def where(self) -> str:
        """The node as people call it, or its id where no name is known."""
        return self.node_name or self.node

    @property
    def state(self) -> ReplicaState:
        """Public state of the replica."""
        if self.exit is None:
            return "Pending" if self.started_at is None else "Running"
        if self.exit.succeeded:
            return "Succeeded"
        return "Stopped" if self.exit.cause in ("stopped", "never-started") else "Failed"


class Replaced(Record):
    """One round of a diagnosis after which nodes were replaced: what it found, and who went for whom."""

    change: ev.PlacementChanged
    at: datetime
    diagnosis: ev.DiagnosisFinished | None = None


class Attempt(Record):
    """One try: placement, replicas, end and decision.

    `placement` and `diagnosis` are the latest, `replaced` has the rounds of the diagnosis before.
    """

    number: int
    queued_at: datetime
    placement: ev.Placed | None = None
    placed_at: datetime | None = None
    code: ev.CodeResolved | None = None
    admitted_at: datetime | None = None
    started_at: datetime | None = None
    replicas: dict[str, Replica] = {}
    preemption: ev.PreemptionRequested | None = None
    preempted_at: datetime | None = None
    incidents: tuple[ev.IncidentRaised, ...] = ()
    progress: ev.ProgressReported | None = None
    evidence: tuple[ev.EvidenceCollected, ...] = ()
    diagnosis_requested_at: datetime | None = None
    diagnosis: ev.DiagnosisFinished | None = None
    diagnosed_at: datetime | None = None
    burn_in: ev.BurnInJudged | None = None
    ended: ev.AttemptEnded | None = None
    ended_at: datetime | None = None
    decision: ev.RetryDecided | None = None
    decided_at: datetime | None = None
    replaced: tuple[Replaced, ...] = ()

    @property
    def round(self) -> int:
        """Which round of the diagnosis it is; each replacement begins another one."""
        return len(self.replaced) + 1

    @property
    def round_began_at(self) -> datetime | None:
        """When the nodes became those that they are now."""
        return self.replaced[-1].at if self.replaced else self.placed_at

    def replica(self, role: str, index: int) -> Replica | None:
        """The replica with this role and index, once the attempt is placed."""
        return self.replicas.get(replica_key(role, index))


def replica_key(role: str, index: int) -> str:
    """Key of a replica within its attempt."""
    return f"{role}-{index}"


def evidence_of(attempt: Attempt, rule: str, noticed_at: datetime | None) -> ev.EvidenceCollected | None:
    """The evidence that was taken when this incident was noticed."""
    return next((each for each in attempt.evidence if (each.rule, each.noticed_at) == (rule, noticed_at)), None)


def replicas_of(roles: Iterable[ev.RolePlacement]) -> dict[str, Replica]:
    """The replicas of a gang that is placed so, of which nothing has started."""
    return {
        replica_key(role.role, index): Replica(
            role=role.role, index=index, node=role.node(index), node_name=role.node_name(index)
        )
        for role in roles
        for index in range(len(role.node_of))
    }
