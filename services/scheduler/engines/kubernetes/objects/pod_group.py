"""The PodGroup with which Volcano places a gang as a whole or not at all."""

from __future__ import annotations

from typing import Final

from services.scheduler.engines.kubernetes.objects.manifest import Json, object_of
from services.scheduler.engines.kubernetes.objects.resources import together
from services.scheduler.engines.kubernetes.objects.settings import ObjectSettings
from services.scheduler.ports.gangs import GangStart

API: Final = "scheduling.volcano.sh/v1beta1"
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
SCHEDULER: Final = "volcano"


def pod_group(gang: GangStart, namespace: str, settings: ObjectSettings) -> Json:
    """All replicas at least, and what they need together."""
    document = object_of("PodGroup", gang.id, gang, namespace, settings.cluster, api=API)
    spec: Json = {"minMember": len(gang.replicas), "minResources": together(gang, settings)}
    if gang.queue:
        spec["queue"] = gang.queue
    return {**document, "spec": spec}
