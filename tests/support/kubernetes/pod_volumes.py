"""The volumes of a pod that runs as processes: each a directory of this machine, filled as Kubernetes would fill it."""

from __future__ import annotations

from pathlib import Path

from services.scheduler.engines.local.sandbox import Bind
from tests.support.kubernetes.containers import Fetch, texts
from tests.support.kubernetes.resources import Json


class PodVolumes:
    """The directories, by the names of the volumes."""

    def __init__(self, directory: Path, claims: Path):
        self._directory, self._claims = directory, claims
        self._places: dict[str, Path] = {}

    async def prepare(self, pod: Json, fetch: Fetch) -> None:
        """Make and fill them."""
        for volume in pod["spec"].get("volumes") or []:
            self._places[volume["name"]] = await self._made(volume, fetch)

    def binds(self, container: Json) -> list[Bind]:
        """Where they stand in the container."""
        return [
            Bind(str(self._part(mount)), mount["mountPath"], mount.get("readOnly", False))
            for mount in container.get("volumeMounts") or []
        ]

    def _part(self, mount: Json) -> Path:
        place: Path = self._places[mount["name"]] / mount.get("subPath", "")
        if not place.exists():
            place.mkdir(parents=True)
        return place

    async def _made(self, volume: Json, fetch: Fetch) -> Path:
        if "hostPath" in volume:
            return Path(volume["hostPath"]["path"])
        if "persistentVolumeClaim" in volume:
            place: Path = self._claims / volume["persistentVolumeClaim"]["claimName"]
        else:
            place = self._directory / volume["name"]
        place.mkdir(parents=True, exist_ok=True)
        for source in _sources(volume):
            await _fill(place, source, fetch)
        return place


def _sources(volume: Json) -> list[Json]:
    if "emptyDir" in volume or "persistentVolumeClaim" in volume:
        return []
    if "projected" in volume:
        return list(volume["projected"]["sources"])
    if "configMap" in volume:
        return [{"configMap": volume["configMap"]}]
    if "secret" in volume:
        secret = volume["secret"]
        return [{"secret": {**secret, "name": secret["secretName"]}}]
    kinds = ", ".join(key for key in volume if key != "name")
    raise ValueError(f"volume {volume['name']}: {kinds} cannot be had where pods run as processes")


async def _fill(place: Path, source: Json, fetch: Fetch) -> None:
    kind, wanted = next(iter(source.items()))
    item = await fetch({"configMap": "configmaps", "secret": "secrets"}[kind], wanted["name"])
    held = texts(item)
    items = wanted.get("items") or [{"key": key, "path": key} for key in held]
    for each in items:
        path = place / each["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(held[each["key"]])
