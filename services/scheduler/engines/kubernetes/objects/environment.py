"""The environment of replicas: what all have alike once in ConfigMaps, the rest in each pod.

Ten roles of a large gang have host lists of a megabyte together, which must not stand in every pod. Variables of
ConfigMaps and Secrets are taken as they are, but in the texts of a pod itself `$(NAME)` would be replaced by
Kubernetes, and `$$` by `$`; so every `$` is doubled there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from services.scheduler.engines.kubernetes.objects.manifest import Json
from services.scheduler.engines.kubernetes.objects.settings import ObjectSettings, PodUser
from services.scheduler.ports.gangs import GangStart, ReplicaStart

# Names that every version of Kubernetes takes as variables from a ConfigMap; others are left out there without a word.
_FIT_FOR_CONFIG_MAP: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,252}", re.ASCII)
# By these the container runtime shows devices, so they are not the job's to set: the device plugin does, or we.
DEVICE_VARIABLES: Final = frozenset({"NVIDIA_VISIBLE_DEVICES"})
_HOME: Final = "/tmp"  # noqa: S108  # in the replica
_USER_NAME: Final = "trainmaster"


def common_variables(gang: GangStart, settings: ObjectSettings) -> dict[str, str]:
    """What is the same in all replicas of the gang and can stand in ConfigMaps."""
    first, *others = gang.replicas
    common = {name: value for name, value in _variables(first, settings).items() if _FIT_FOR_CONFIG_MAP.fullmatch(name)}
    for replica in others:
        theirs = _variables(replica, settings)
        for name in [name for name, value in common.items() if theirs.get(name) != value]:
            del common[name]
    return common


def own_variables(replica: ReplicaStart, common: Mapping[str, str], settings: ObjectSettings) -> list[Json]:
    """What a pod says itself."""
    own = ((name, value) for name, value in _variables(replica, settings).items() if common.get(name) != value)
    return [{"name": name, "value": doubled(value)} for name, value in own]


def doubled(text: str) -> str:
    """The text as a pod has to say it for the replica to get it as it is."""
    return text.replace("$", "$$")


def _variables(replica: ReplicaStart, settings: ObjectSettings) -> dict[str, str]:
    """All of them; a home and a name that the platform adds give way to the job's own."""
    shown = {**_named(settings.user_of(replica)), **replica.env}
    return {name: value for name, value in shown.items() if name not in DEVICE_VARIABLES} | _devices(replica)


def _named(user: PodUser) -> dict[str, str]:
    """A user id of which the image knows no name and home needs both."""
    return {"HOME": _HOME, "USER": _USER_NAME} if user.uid is not None else {}


def _devices(replica: ReplicaStart) -> dict[str, str]:
    """A replica without GPUs must not see those of the node, for which many images ask."""
    return {} if replica.gpus else {"NVIDIA_VISIBLE_DEVICES": "void"}
