"""What a replica's processes may do: nothing that training does not need.

This is what the Pod Security level `restricted` demands: no privileges and none to be gained, no capabilities, the
runtime's seccomp profile, no root. Only where an admin allows it may an image run as root, still without all else.
"""

from __future__ import annotations

from services.scheduler.engines.kubernetes.objects.manifest import Json
from services.scheduler.engines.kubernetes.objects.settings import PodUser


def pod_security(user: PodUser) -> Json:
    """The security context of a pod; files that volumes are given belong to the group of its user."""
    context: Json = {"seccompProfile": {"type": "RuntimeDefault"}}
    if user.uid is not None:
        ids = {"runAsUser": user.uid, "runAsGroup": user.uid, "fsGroup": user.uid}
        context |= {**ids, "fsGroupChangePolicy": "OnRootMismatch"}
    if not user.may_be_root:
        context["runAsNonRoot"] = True
    return context


def container_security() -> Json:
    """The security context of each container."""
    return {"allowPrivilegeEscalation": False, "privileged": False, "capabilities": {"drop": ["ALL"]}}
