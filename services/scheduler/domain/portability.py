"""What is different for a job where it would run, next to the other kind of place: one machine, or Kubernetes.

The same document runs on both. What each makes of it differs in few things, and a plan tells those that this job has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Literal

from shared.catalog.volumes import scheme_of
from shared.events import Resolved, ResolvedMount

EngineKind = Literal["local", "kubernetes"]


def differences(engine: EngineKind, resolved: Resolved) -> tuple[str, ...]:
    """One sentence for each thing."""
    return tuple(_TELLERS[engine](resolved))


def _on_one_machine(resolved: Resolved) -> Iterator[str]:
    if resolved.image is not None:
        yield (
            f"image {resolved.image.address} is noted and not used: commands find the programs of this machine, on "
            "Kubernetes those of the image"
        )
    for mount in _at(resolved, "file"):
        yield (
            f"{mount.mount_path} is a directory of this machine, on Kubernetes one of every node that a replica is on, "
            "where admins allow directories of nodes"
        )
    for mount in _at(resolved, "s3"):
        yield (
            f"{mount.mount_path}: data at s3:// is copied here before the start, and what was written is copied back "
            "after the end; Kubernetes mounts it"
        )


def _on_kubernetes(resolved: Resolved) -> Iterator[str]:
    if resolved.image is not None:
        yield (
            f"image {resolved.image.address} is pulled, and commands find its programs alone, as a user that is no "
            "root unless admins allow it; on one machine it is noted and not used"
        )
    for mount in _at(resolved, "file"):
        yield f"{mount.mount_path} is a directory of the node that a replica is on; nodes need not have the same in it"
    for mount in _at(resolved, "s3"):
        yield f"{mount.mount_path}: data at s3:// is mounted; one machine copies it before the start and after the end"
    for mount in (*_at(resolved, "pvc"), *_at(resolved, "nfs")):
        scheme = scheme_of(mount.uri)
        yield f"{mount.mount_path}: data at {scheme}:// is mounted by Kubernetes alone; one machine refuses the job"


def _at(resolved: Resolved, scheme: str) -> Iterator[ResolvedMount]:
    return (mount for mount in resolved.mounts if scheme_of(mount.uri) == scheme)


_TELLERS: Final[dict[EngineKind, Callable[[Resolved], Iterator[str]]]] = {
    "local": _on_one_machine,
    "kubernetes": _on_kubernetes,
}
