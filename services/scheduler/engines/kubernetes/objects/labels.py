"""Labels of everything that belongs to a gang, by which it is found, selected and cleaned up.

Label values are at most 63 characters of a small alphabet; a name that is none is given as a label that stands for it,
and whole in an annotation.
"""

from __future__ import annotations

from typing import Any

from services.scheduler.ports.gangs import GangStart, ReplicaStart
from shared.ids import DNS_LABEL_MAX
from shared.kubernetes import names
from shared.kubernetes.namespaces import fitting

Json = dict[str, Any]


def gang_labels(gang: GangStart, cluster: str) -> Json:
    """Of every object of the gang."""
    return {
        names.MANAGED_BY_LABEL: names.MANAGED_BY,
        names.CLUSTER_LABEL: fitting(cluster, DNS_LABEL_MAX),
        names.JOB_LABEL: gang.job,
        names.ATTEMPT_LABEL: str(gang.attempt),
        names.GANG_LABEL: gang.id,
        names.PROJECT_LABEL: fitting(gang.project, DNS_LABEL_MAX),
    }


def replica_labels(gang: GangStart, replica: ReplicaStart, cluster: str) -> Json:
    """Of a replica's pod."""
    return {**gang_labels(gang, cluster), names.ROLE_LABEL: replica.role, names.INDEX_LABEL: str(replica.index)}


def human_names(gang: GangStart) -> Json:
    """Names as people wrote them, and the owner's id."""
    return {
        names.PROJECT_ANNOTATION: gang.project,
        names.OWNER_ANNOTATION: gang.owner,
        names.JOB_NAME_ANNOTATION: gang.job_name,
    }


def selector(gang: GangStart) -> Json:
    """What selects the gang's pods and no others."""
    return {"matchLabels": {names.GANG_LABEL: gang.id}}
