"""Volumes of a replica: what each is, and where in the container it stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from services.scheduler.engines.kubernetes.objects.manifest import Json
from services.scheduler.engines.kubernetes.objects.settings import ObjectSettings
from services.scheduler.ports.gangs import ReplicaStart

SHM_PATH: Final = "/dev/shm"  # noqa: S108  # in the replica


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume, and the place of one container at which it, or a part of it, stands."""

    name: str
    source: Json
    path: str
    sub_path: str = ""
    read_only: bool = False

    def manifest(self) -> Json:
        """As the pod lists it."""
        return {"name": self.name, **self.source}

    def mount(self) -> Json:
        """As the container lists it."""
        part = {"subPath": self.sub_path} if self.sub_path else {}
        return {"name": self.name, "mountPath": self.path, **part, **({"readOnly": True} if self.read_only else {})}


def manifests(volumes: Iterable[Volume]) -> list[Json]:
    """The volumes of a pod, each once, whatever number of places it has."""
    return list({volume.name: volume.manifest() for volume in volumes}.values())


def shared_memory(replica: ReplicaStart, settings: ObjectSettings) -> Volume:
    """Memory that processes share, as data loaders and NCCL do; it counts as the replica's own."""
    limit = (replica.memory_bytes or 0) * settings.shm_percent // 100
    return Volume("shm", {"emptyDir": {"medium": "Memory", **({"sizeLimit": str(limit)} if limit else {})}}, SHM_PATH)


def scratch(name: str, path: str, size_limit: str = "") -> Volume:
    """An empty folder of the pod's own."""
    return Volume(name, {"emptyDir": {"sizeLimit": size_limit} if size_limit else {}}, path)
