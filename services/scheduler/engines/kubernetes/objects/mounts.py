"""Data of a job as volumes, by the scheme of its URI: `pvc://`, `file://` (a node's own directory), `nfs://`, `s3://`.

Links in the data must not lead out of what an admin allowed. Of a directory and of NFS the storage's root is therefore
the volume and the mount a part of it (`subPath`), which kubelet resolves without leaving the volume. Of a claim the
whole is the volume, so that a part of a part could be led out of by a link; that is refused.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Final

from services.scheduler.engines.kubernetes.objects.manifest import Json
from services.scheduler.engines.kubernetes.objects.settings import VolumeSettings
from services.scheduler.engines.kubernetes.objects.volumes import Volume
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import GangMount, GangStart
from shared.admission.locations import within
from shared.catalog.fields import bucket_and_key, file_path
from shared.catalog.volumes import claim_and_path, scheme_of, server_and_path
from shared.environment import ETC_DIR

CODE: Final = "/code"
# A prefix is a part of what a driver is told, in which a space or comma may begin the next option.
_PLAIN: Final = re.compile(r"[A-Za-z0-9._/=+@~-]*", re.ASCII)
_UNFIT: Final = (ETC_DIR, "/dev", "/proc", "/sys")


def mount_volumes(gang: GangStart, settings: VolumeSettings) -> tuple[Volume, ...]:
    """A volume for each mount of the gang; raises StartRefusedError where one cannot be had here."""
    return tuple(_volumes(gang, settings))


def volume_of(name: str, mount: GangMount, settings: VolumeSettings) -> Volume:
    """One mount; raises StartRefusedError."""
    scheme = scheme_of(mount.uri)
    if scheme not in settings.schemes:
        offered = ", ".join(f"{each}://" for each in settings.schemes)
        raise StartRefusedError(f"{mount.path}: {mount.uri} cannot be mounted in this cluster, which mounts {offered}")
    source, sub_path = _SOURCES[scheme](mount, settings)
    return Volume(name, source, mount.path, sub_path, mount.read_only)


def _volumes(gang: GangStart, settings: VolumeSettings) -> Iterator[Volume]:
    taken = {CODE} if gang.code is not None else set[str]()
    for position, mount in enumerate(gang.mounts):
        unfit = next((tree for tree in _UNFIT if within(mount.path, tree)), None)
        if unfit or mount.path == "/":
            raise StartRefusedError(f"{mount.path}: nothing can be mounted in {unfit or '/'}; mount below /mnt, say")
        if mount.path in taken:
            raise StartRefusedError(f"{mount.path}: there is something else at this path already; mount elsewhere")
        taken.add(mount.path)
        yield volume_of(f"mount-{position}", mount, settings)


def _claim(mount: GangMount, _: VolumeSettings) -> tuple[Json, str]:
    claim, path = claim_and_path(mount.uri)
    if path and mount.sub_path:
        raise StartRefusedError(
            f"{mount.path}: {mount.sub_path} lies in {mount.uri}, which is itself a part of a claim, and a link could "
            "lead out of that; mount the storage without subPath, or have a storage made of a claim of its own"
        )
    return {"persistentVolumeClaim": {"claimName": claim, "readOnly": mount.read_only}}, path or mount.sub_path


def _directory(mount: GangMount, settings: VolumeSettings) -> tuple[Json, str]:
    root = posixpath.normpath(file_path(mount.uri))
    if not any(within(root, prefix) for prefix in settings.host_prefixes):
        allowed = ", ".join(settings.host_prefixes)
        raise StartRefusedError(f"{mount.path}: {root} lies in no directory of nodes that jobs may mount: {allowed}")
    return {"hostPath": {"path": root, "type": "Directory"}}, mount.sub_path


def _nfs(mount: GangMount, _: VolumeSettings) -> tuple[Json, str]:
    server, path = server_and_path(mount.uri)
    return {"nfs": {"server": server, "path": path, "readOnly": mount.read_only}}, mount.sub_path


def _s3(mount: GangMount, settings: VolumeSettings) -> tuple[Json, str]:
    bucket, key = bucket_and_key(mount.uri)
    prefix = "/".join(part for part in (key.strip("/"), mount.sub_path) if part)
    claim = settings.s3.claims.get(bucket)
    if claim is not None:
        return {"persistentVolumeClaim": {"claimName": claim, "readOnly": mount.read_only}}, prefix
    if not settings.s3.driver:
        known = ", ".join(sorted(settings.s3.claims))
        raise StartRefusedError(f"{mount.path}: this cluster has no volume for the bucket {bucket}, only for {known}")
    if _PLAIN.fullmatch(prefix) is None:
        raise StartRefusedError(
            f"{mount.path}: {prefix} has characters that a driver could take for options; rename it"
        )
    texts = settings.s3.attributes
    attributes = {name: _filled(text, bucket, prefix) for name, text in texts.items()}
    csi = {"driver": settings.s3.driver, "readOnly": mount.read_only, "volumeAttributes": attributes}
    return {"csi": csi}, "" if any("{prefix}" in text for text in texts.values()) else prefix


def _filled(text: str, bucket: str, prefix: str) -> str:
    return text.replace("{bucket}", bucket).replace("{prefix}", prefix)


_SOURCES: Final = {"file": _directory, "nfs": _nfs, "pvc": _claim, "s3": _s3}
