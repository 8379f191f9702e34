"""The kinds of objects that the test server knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """One kind of objects and where its API lies."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    subresources: tuple[str, ...] = ()
    selectable: frozenset[str] = frozenset()
    """What field selectors may ask for, besides `metadata.name` and `metadata.namespace`."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """As error messages have it: `pods`, `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


POD_FIELDS: Final = frozenset(
    {
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    }
)
EVENT_FIELDS: Final = frozenset(
    {f"involvedObject.{each}" for each in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion")}
    | {"reason", "reportingComponent", "source", "type"}
)

PODS: Final = Resource("", "v1", "pods", "Pod", True, ("binding", "eviction", "exec", "log", "status"), POD_FIELDS)
NAMESPACES: Final = Resource(
    "", "v1", "namespaces", "Namespace", False, ("finalize", "status"), frozenset({"status.phase"})
)
NODES: Final = Resource("", "v1", "nodes", "Node", False, ("status",), frozenset({"spec.unschedulable"}))
SERVICES: Final = Resource(
    "", "v1", "services", "Service", True, ("status",), frozenset({"spec.clusterIP", "spec.type"})
)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS: Final = Resource("", "v1", "secrets", "Secret", True, (), frozenset({"type"}))
EVENTS: Final = Resource("", "v1", "events", "Event", True, (), EVENT_FIELDS)
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount")
RESOURCE_QUOTAS: Final = Resource("", "v1", "resourcequotas", "ResourceQuota", True, ("status",))
CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, ("status",))
VOLUMES: Final = Resource("", "v1", "persistentvolumes", "PersistentVolume", False, ("status",))
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
NETWORK_POLICIES: Final = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
STORAGE_CLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False)
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
POD_GROUPS: Final = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", True, ("status",))
QUEUES: Final = Resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", False, ("status",))

BUILT_IN: Final = (
    PODS,
    NAMESPACES,
    NODES,
    SERVICES,
    CONFIG_MAPS,
    SECRETS,
    EVENTS,
    SERVICE_ACCOUNTS,
    RESOURCE_QUOTAS,
    CLAIMS,
    VOLUMES,
    LEASES,
    NETWORK_POLICIES,
    STORAGE_CLASSES,
    PRIORITY_CLASSES,
)
VOLCANO: Final = (POD_GROUPS, QUEUES)
