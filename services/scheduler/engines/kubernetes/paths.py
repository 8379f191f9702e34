"""Paths of the API server's resources."""

from __future__ import annotations

from typing import Final

ALL_NODES: Final = "/api/v1/nodes"
ALL_NAMESPACES: Final = "/api/v1/namespaces"
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
"""Where anybody may ask what they are allowed to do."""

_PLURALS: Final = {
    "ConfigMap": "api/v1/{}configmaps",
    "Secret": "api/v1/{}secrets",
    "Service": "api/v1/{}services",
    "Pod": "api/v1/{}pods",
    "Event": "api/v1/{}events",
    "NetworkPolicy": "apis/networking.k8s.io/v1/{}networkpolicies",
    "PodGroup": "apis/scheduling.volcano.sh/v1beta1/{}podgroups",
}


def collection_path(kind: str, namespace: str = "") -> str:
    """All objects of a kind in a namespace, or in every one."""
    return "/" + _PLURALS[kind].format(f"namespaces/{namespace}/" if namespace else "")


def config_map_path(namespace: str, name: str) -> str:
    """One ConfigMap."""
    return f"{collection_path('ConfigMap', namespace)}/{name}"


def pod_path(namespace: str, name: str) -> str:
    """One pod."""
    return f"{collection_path('Pod', namespace)}/{name}"
