"""The gang's record: the ConfigMap that is made first, owns all else, and from which a gang is known again.

It says which replicas there are and on which nodes, so that a scheduler that knows nothing can tell replicas that are
missing from replicas that never were. Ten thousand replicas take some kilobytes, as nodes are told once a role and all
is compressed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field

from services.scheduler.engines.kubernetes.objects.manifest import Json, object_of
from services.scheduler.engines.kubernetes.objects.zipped import unzipped, zipped
from services.scheduler.ports.gangs import GangStart
from services.scheduler.ports.reports import ReplicaRef
from shared.ids import GangId, gang_id
from shared.kubernetes.names import PHASE_ANNOTATION

CREATING, RELEASED, STOPPING, FORGOTTEN = "creating", "released", "stopping", "forgotten"
RECORD_KEY: Final = "record.json.gz"


class _Role(BaseModel):
    model_config = ConfigDict(strict=True)

    role: str
    nodes: list[str]
    node_of: list[int] = Field(alias="nodeOf")


class _Body(BaseModel):
    model_config = ConfigDict(strict=True)

    job: str
    attempt: int
    roles: list[_Role]
    grace_s: float = Field(alias="graceS")


@dataclass(frozen=True, slots=True)
class RoleRecord:
    """A role's replicas by index: the node of each."""

    role: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GangRecord:
    """What has to be known of a gang without its start; roles in the order of their ranks."""

    job: str
    attempt: int
    roles: tuple[RoleRecord, ...]
    grace_s: float

    @classmethod
    def of(cls, gang: GangStart) -> Self:
        """The record of a gang that is to be started."""
        nodes: dict[str, list[str]] = {}
        for replica in sorted(gang.replicas, key=lambda replica: replica.index):
            nodes.setdefault(replica.role, []).append(replica.node)
        order = dict.fromkeys(replica.role for replica in gang.replicas)
        roles = tuple(RoleRecord(role, tuple(nodes[role])) for role in order)
        return cls(gang.job, gang.attempt, roles, gang.termination_grace_s)

    @classmethod
    def read(cls, config_map: Json) -> Self:
        """The record that a ConfigMap holds; raises ValueError where it holds none that can be read."""
        try:
            body = _Body.model_validate_json(unzipped(config_map["binaryData"][RECORD_KEY]))
            roles = tuple(RoleRecord(role.role, tuple(_expanded(role))) for role in body.roles)
            return cls(body.job, body.attempt, roles, body.grace_s)
        except (LookupError, TypeError, ValueError) as error:
            raise ValueError(f"it holds no record of a gang: {error}") from error

    @property
    def gang(self) -> GangId:
        """Name of the gang, and of the ConfigMap that holds its record."""
        return gang_id(self.job, self.attempt)

    @property
    def replicas(self) -> tuple[ReplicaRef, ...]:
        """Every replica in the order of the ranks."""
        return tuple(
            ReplicaRef(self.job, self.attempt, role.role, index, node)
            for role in self.roles
            for index, node in enumerate(role.nodes)
        )

    def encoded(self) -> str:
        """As the ConfigMap holds it."""
        roles = [{"role": role.role, **_compact(role.nodes)} for role in self.roles]
        body = {"job": self.job, "attempt": self.attempt, "roles": roles, "graceS": self.grace_s}
        return zipped(json.dumps(body, separators=(",", ":")))


def record_config_map(gang: GangStart, namespace: str, cluster: str) -> Json:
    """The ConfigMap with which the gang begins."""
    document = object_of("ConfigMap", gang.id, gang, namespace, cluster)
    document["metadata"]["annotations"][PHASE_ANNOTATION] = CREATING
    return {**document, "binaryData": {RECORD_KEY: GangRecord.of(gang).encoded()}}


def _compact(nodes: tuple[str, ...]) -> Json:
    names = list(dict.fromkeys(nodes))
    place = {name: position for position, name in enumerate(names)}
    return {"nodes": names, "nodeOf": [place[node] for node in nodes]}


def _expanded(role: _Role) -> list[str]:
    return [role.nodes[position] for position in role.node_of]
