"""Which devices the kubelet has given to which pod, from a file of its own (its checkpoint of device plugins).

Ids there are those of the driver, perhaps with `::<number>` behind, where a GPU is shared by time; parts of a divided
GPU (MIG) have ids of their own. What a pod had stays in the file for a while after it has ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

CHECKPOINT: Final = Path("device-plugins/kubelet_internal_checkpoint")
_SHARE: Final = "::"
_WHOLE: Final = "GPU-"
_PART: Final = "MIG-"


@dataclass(frozen=True, slots=True)
class Allocations:
    """Ids by the uid of the pod that has them, and all that the kubelet may give, as they stand in the file."""

    given: Mapping[str, frozenset[str]] = field(default_factory=dict)
    offered: frozenset[str] = frozenset()

    @property
    def are_shares(self) -> bool:
        """Whether GPUs are given to several pods at a time."""
        return any(_SHARE in each or each.startswith(_PART) for each in self.offered)

    def devices(self, pod: str) -> frozenset[str]:
        """The driver's ids of the pod's devices."""
        return frozenset(each.partition(_SHARE)[0] for each in self.given.get(pod, ()))

    def gpus(self, pod: str) -> frozenset[str]:
        """Those of them that are NVIDIA's."""
        return frozenset(each for each in self.devices(pod) if each.startswith((_WHOLE, _PART)))


def read_allocations(kubelet: Path) -> Allocations:
    """What the file below the kubelet's directory says; nothing where there is none, or it is of another shape."""
    given: dict[str, frozenset[str]] = {}
    try:
        data = json.loads((kubelet / CHECKPOINT).read_bytes())["Data"]
        for entry in data["PodDeviceEntries"] or ():
            pod = str(entry["PodUID"])
            given[pod] = given.get(pod, frozenset()) | _ids(entry["DeviceIDs"])
        offered = frozenset(str(each) for ids in (data.get("RegisteredDevices") or {}).values() for each in ids or ())
        return Allocations(given, offered)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Allocations(given)


def _ids(listed: Mapping[str, Iterable[Any]] | Iterable[Any]) -> frozenset[str]:
    """The ids of a list, or of lists by NUMA node."""
    if isinstance(listed, Mapping):
        return frozenset(str(each) for numa in listed.values() for each in numa or ())
    return frozenset(str(each) for each in listed)
