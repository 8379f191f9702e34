"""Where the kubelet has a pod's volume on this machine, so that what a replica writes into it can be read.

| volume | below the kubelet's directory of the pod |
|---|---|
| `emptyDir` | `volumes/kubernetes.io~empty-dir/<volume>` |
| `nfs` | `volumes/kubernetes.io~nfs/<volume>` |
| a claim, whole | `volumes/kubernetes.io~<plugin>/<persistent volume>`, and `mount` in it where the plugin is `csi` |
| a part (`subPath`) of any but `hostPath` | `volume-subpaths/<volume>/<container>/<number of the mount>` |

A `hostPath` is itself, where the agent has it at the same path. The name of a claim's persistent volume is not in the
pod, so a whole claim is found only where it is the pod's one claim; mounts of several claims need a `subPath`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from services.agent.kubernetes.pods import Pod, VolumePath
from shared.kubernetes.names import REPLICA_CONTAINER

_NOT_CLAIMS: Final = frozenset({"empty-dir", "configmap", "secret", "projected", "downward-api", "nfs", "host-path"})
_PREFIX: Final = "kubernetes.io~"
_CSI_MOUNT: Final = "mount"


@dataclass(frozen=True, slots=True)
class Place:
    """A directory that is trusted, and the one in it that user code writes to."""

    root: Path
    path: Path


def find_place(kubelet: Path, pod: Pod, wanted: VolumePath | None) -> Place | None:
    """Where the directory in a volume of the pod is; None while, or because, it cannot be found here."""
    if wanted is None:
        return None
    if wanted.kind == "hostPath":
        root = _existing(Path(wanted.place))
        return Place(root, root / wanted.part / wanted.below) if root is not None else None
    root = _root(kubelet / "pods" / pod.uid, wanted)
    return Place(root, root / wanted.below) if root is not None else None


def _root(pod: Path, wanted: VolumePath) -> Path | None:
    if wanted.part:
        return _only(pod.glob(f"volume-subpaths/*/{REPLICA_CONTAINER}/{wanted.mount}"))
    if wanted.kind in ("emptyDir", "nfs"):
        plugin = "empty-dir" if wanted.kind == "emptyDir" else "nfs"
        return _existing(pod / "volumes" / f"{_PREFIX}{plugin}" / wanted.volume)
    return _of_claim(pod) if wanted.claims == 1 else None


def _of_claim(pod: Path) -> Path | None:
    plugins = (each for each in pod.glob(f"volumes/{_PREFIX}*") if each.name.removeprefix(_PREFIX) not in _NOT_CLAIMS)
    found = _only(volume for plugin in plugins for volume in plugin.iterdir())
    if found is None:
        return None
    return _existing(found / _CSI_MOUNT) if found.parent.name == f"{_PREFIX}csi" else found


def _existing(path: Path) -> Path | None:
    return path if path.is_dir() else None


def _only(paths: Iterable[Path]) -> Path | None:
    found = list(paths)
    return found[0] if len(found) == 1 else None
