"""What the agent wants to know of a pod: which replica it is, whether its containers run or have ended, its volumes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from posixpath import normpath
from typing import Final

from shared.clock import parse_rfc3339
from shared.ids import replica_id
from shared.kubernetes.documents import Json
from shared.kubernetes.names import (
    ATTEMPT_LABEL,
    CHECKPOINTS_ANNOTATION,
    INDEX_LABEL,
    JOB_LABEL,
    REPLICA_CONTAINER,
    ROLE_LABEL,
    TENSORBOARD_ANNOTATION,
)
from shared.logs_wire import ReplicaRef

_ENDED_PHASES: Final = frozenset({"Succeeded", "Failed"})
_CLAIM: Final = "persistentVolumeClaim"


@dataclass(frozen=True, slots=True)
class VolumePath:
    """Where in a pod a directory is: in which volume, of what kind, and below which path of it.

    `place` is the host's own directory, for a volume that is one; `mount` is the number of the container's mount, for
    one that is a part of a volume.
    """

    volume: str
    kind: str
    below: str
    place: str = ""
    part: str = ""
    mount: int = 0
    claims: int = 0


@dataclass(frozen=True, slots=True)
class Pod:
    """A replica's pod, as the API server tells of it. `failed_init` is an init container that did not succeed."""

    uid: str
    namespace: str
    name: str
    replica: ReplicaRef
    started_at: str
    has_begun: bool = False
    has_ended: bool = False
    container: str = ""
    failed_init: str = ""
    event_files: VolumePath | None = None
    checkpoints: VolumePath | None = None

    @property
    def gang(self) -> str:
        """Name of the gang that it belongs to."""
        return f"{self.replica.job}-{self.replica.attempt}"

    @property
    def log_directory(self) -> str:
        """Name of its directory below the kubelet's log directory."""
        return f"{self.namespace}_{self.name}_{self.uid}"


def pod_of(given: Json) -> Pod | None:
    """The pod of its JSON; None where it is no replica's, or a copy, which has its labels and another name."""
    metadata: Json = given.get("metadata") or {}
    status: Json = given.get("status") or {}
    annotations: Json = metadata.get("annotations") or {}
    replica = _replica_of(metadata.get("labels") or {})
    if replica is None or metadata.get("name") != replica_id(replica.job, replica.attempt, replica.role, replica.index):
        return None
    own = _own_status(status)
    state = own.get("state") or {}
    return Pod(
        uid=str(metadata.get("uid") or ""),
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        replica=replica,
        started_at=_time(status.get("startTime") or metadata.get("creationTimestamp")),
        has_begun="running" in state or "terminated" in state,
        has_ended="terminated" in state or status.get("phase") in _ENDED_PHASES,
        container=str(own.get("containerID") or "").rpartition("/")[2],
        failed_init=next(_failed_inits(status), ""),
        event_files=_volume_path(given.get("spec") or {}, annotations.get(TENSORBOARD_ANNOTATION)),
        checkpoints=_volume_path(given.get("spec") or {}, annotations.get(CHECKPOINTS_ANNOTATION)),
    )


def _replica_of(labels: Json) -> ReplicaRef | None:
    try:
        return ReplicaRef(
            str(labels[JOB_LABEL]), int(labels[ATTEMPT_LABEL]), str(labels[ROLE_LABEL]), int(labels[INDEX_LABEL])
        )
    except (KeyError, ValueError):
        return None


def _own_status(status: Json) -> Json:
    listed: list[Json] = status.get("containerStatuses") or []
    return next((each for each in listed if each.get("name") == REPLICA_CONTAINER), {})


def _failed_inits(status: Json) -> Iterator[str]:
    for each in status.get("initContainerStatuses") or ():
        ended = (each.get("state") or {}).get("terminated")
        if ended and ended.get("exitCode") != 0:
            yield str(each.get("name") or "")


def _time(given: str | None) -> str:
    """The time, or one long ago, so that no event file is left out."""
    try:
        return parse_rfc3339(given or "").isoformat()
    except ValueError:
        return "1970-01-01T00:00:00+00:00"


def _volume_path(spec: Json, directory: str | None) -> VolumePath | None:
    """The volume that stands at the directory or above it; the nearest one, where there are several."""
    if directory is None:
        return None
    path = normpath(str(directory))
    container: Json = next((each for each in spec.get("containers") or () if each.get("name") == REPLICA_CONTAINER), {})
    mounts = [
        (number, each, below)
        for number, each in enumerate(container.get("volumeMounts") or ())
        if (below := _below(path, str(each.get("mountPath") or ""))) is not None
    ]
    volumes = {str(each.get("name")): each for each in spec.get("volumes") or ()}
    if not mounts:
        return None
    number, mount, below = max(mounts, key=lambda found: len(str(found[1]["mountPath"])))
    volume = volumes.get(str(mount.get("name")), {})
    kind = next((name for name in volume if name != "name"), "")
    return VolumePath(
        volume=str(mount.get("name")),
        kind=kind,
        below=below,
        place=str((volume.get("hostPath") or {}).get("path") or ""),
        part=str(mount.get("subPath") or "").strip("/"),
        mount=number,
        claims=sum(1 for each in volumes.values() if _CLAIM in each),
    )


def _below(path: str, mount_path: str) -> str | None:
    """The way from the mount to the path; None where it is not in there."""
    inner, outer = path.strip("/").split("/"), [part for part in mount_path.strip("/").split("/") if part]
    return "/".join(inner[len(outer) :]) if mount_path and inner[: len(outer)] == outer else None
