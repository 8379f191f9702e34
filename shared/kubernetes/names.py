"""Names by which the scheduler's Kubernetes engine, the node agent and the chart find what belongs to a gang.

Every object of a gang carries the labels; labels are for selecting, annotations for everything else.
"""

from __future__ import annotations

from typing import Final

from shared.ids import hashed_id

PREFIX: Final = "trainmaster.dev/"

MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "trainmaster"
MANAGED_SELECTOR: Final = f"{MANAGED_BY_LABEL}={MANAGED_BY}"
CLUSTER_LABEL: Final = f"{PREFIX}cluster"
JOB_LABEL: Final = f"{PREFIX}job"
ATTEMPT_LABEL: Final = f"{PREFIX}attempt"
ROLE_LABEL: Final = f"{PREFIX}role"
INDEX_LABEL: Final = f"{PREFIX}index"
PROJECT_LABEL: Final = f"{PREFIX}project"
"""Stands for the project, whose name need be no label."""
GANG_LABEL: Final = f"{PREFIX}gang"

PROJECT_ANNOTATION: Final = f"{PREFIX}project"
OWNER_ANNOTATION: Final = f"{PREFIX}owner"
JOB_NAME_ANNOTATION: Final = f"{PREFIX}job-name"
PHASE_ANNOTATION: Final = f"{PREFIX}phase"
"""How far a gang's start or end is; on its record."""

GANG_GATE: Final = f"{PREFIX}gang"
"""The scheduling gate that holds a pod back until its gang is whole."""
SCHEDULER_NAME: Final = "trainmaster"

TENSORBOARD_ANNOTATION: Final = f"{PREFIX}tensorboard"
"""Where, in the replica, event files are; on the one pod whose agent ships them."""
CHECKPOINTS_ANNOTATION: Final = f"{PREFIX}checkpoints"
"""Where, in the replica, the attempt saves; on the same pod, whose agent tells of what is new there."""

REPLICA_CONTAINER: Final = "replica"
CODE_CONTAINER: Final = "code"
"""The init container that lays `/code`."""
FILES_CONTAINER: Final = "files"
"""The one that lays host lists that are too large for ConfigMaps."""

TENSORBOARD_VOLUME: Final = "tensorboard"


def node_id(cluster: str, node_name: str) -> str:
    """Id of a cluster's node, the same wherever it is worked out."""
    return hashed_id("n", cluster, node_name)


def machine_name(cluster: str, node_name: str) -> str:
    """Name under which a node's agent answers: nodes of two clusters may have one name."""
    return f"{cluster}.{node_name}"
