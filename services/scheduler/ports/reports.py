"""What an engine reports: for each replica that it waits, runs or has ended, and that all of the past is told.

Reports come at least once, with ids that are the same each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from shared.events import ReplicaExit
from shared.ids import GangId, ReplicaId, gang_id, replica_id


@dataclass(frozen=True, slots=True)
class ReplicaRef:
    """One replica of one attempt."""

    job: str
    attempt: int
    role: str
    index: int
    node: str

    @property
    def gang(self) -> GangId:
        """Name of the gang that it belongs to."""
        return gang_id(self.job, self.attempt)

    @property
    def id(self) -> ReplicaId:
        """Name of the replica."""
        return replica_id(self.job, self.attempt, self.role, self.index)


@dataclass(frozen=True, slots=True)
class ReplicaWaiting:
    """The replica does not run yet, for this reason."""

    replica: ReplicaRef
    at: datetime
    reason: str

    @property
    def id(self) -> str:
        """The same for every report of this fact."""
        return f"{self.replica.id}/waiting/{self.reason}"


@dataclass(frozen=True, slots=True)
class ReplicaStarted:
    """The replica's command runs."""

    replica: ReplicaRef
    at: datetime

    @property
    def id(self) -> str:
        """The same for every report of this fact."""
        return f"{self.replica.id}/started"


@dataclass(frozen=True, slots=True)
class ReplicaExited:
    """The replica has ended, and every process of it."""

    replica: ReplicaRef
    at: datetime
    exit: ReplicaExit

    @property
    def id(self) -> str:
        """The same for every report of this fact."""
        return f"{self.replica.id}/exited"


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """All that happened before `observe` was called is told; the engine knows these gangs and no others.

    An engine that knows only gangs of the cluster with its own name says so: nothing is known of others then. Where
    several clusters are observed together each of them catches up for itself.
    """

    gangs: frozenset[GangId]
    cluster: str = ""


Observation = ReplicaWaiting | ReplicaStarted | ReplicaExited | CaughtUp
