"""What a replica's processes may do: nothing that training does not need.

This is what the Pod Security level `restricted` demands: no privileges and none to be gained, no capabilities, the
runtime's seccomp profile, no root. Only where an admin allows it may an image run as root, still without all else.
"""

from __future__ import annotations

from services.scheduler.engines.kubernetes.objects.manifest import Json
from services.scheduler.engines.kubernetes.objects.settings import ObjectSettings, PodUser
from shared.kubernetes import names


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


def pod_security_level(settings: ObjectSettings) -> str:
    """The Pod Security level that a namespace of jobs can have: the strictest under which what is allowed may start."""
    if settings.volumes.host_prefixes:
        return "privileged"
    return "baseline" if settings.volumes.nfs or settings.user.may_be_root else "restricted"


def namespace(name: str, settings: ObjectSettings) -> Json:
    """A namespace of jobs, in which the API server itself refuses whatever has more rights than jobs may have."""
    level = pod_security_level(settings)
    labels = {
        names.MANAGED_BY_LABEL: names.MANAGED_BY,
        **{f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "audit", "warn")},
    }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
