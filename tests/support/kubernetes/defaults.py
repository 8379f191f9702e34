"""What the API server fills in when an object is made, and what it resets because clients may not say it."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Iterator
from typing import Final

from tests.support.kubernetes import resources as kinds
from tests.support.kubernetes.resources import Json, Resource

UNREACHABLE_TOLERATIONS: Final = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
)
NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
POD_DEFAULTS: Final[Json] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "serviceAccountName": "default",
    "serviceAccount": "default",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "priority": 0,
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
}
CONTAINER_DEFAULTS: Final[Json] = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "Always",
}


class Defaulter:
    """Fills in new objects; hands out the addresses of services."""

    def __init__(self) -> None:
        self._addresses: Iterator[int] = itertools.count(1)

    def fill(self, resource: Resource, item: Json) -> Json:
        """The new object, completed."""
        fillers: dict[Resource, Callable[[Json], Json]] = {
            kinds.PODS: _pod,
            kinds.SERVICES: self._service,
            kinds.SECRETS: _secret,
            kinds.NAMESPACES: _namespace,
            kinds.CLAIMS: lambda claim: {**claim, "status": {"phase": "Pending"}},
            kinds.NODES: _node,
        }
        fill = fillers.get(resource)
        return item if fill is None else fill(item)

    def _service(self, item: Json) -> Json:
        spec = item.get("spec") or {}
        filled = {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", **spec}
        filled.setdefault("clusterIP", f"10.96.{(number := next(self._addresses)) // 250}.{number % 250 + 1}")
        filled["clusterIPs"] = [filled["clusterIP"]]
        filled |= {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}
        if "ports" in filled:
            filled["ports"] = [{"protocol": "TCP", "targetPort": port.get("port"), **port} for port in filled["ports"]]
        return {**item, "spec": filled, "status": {"loadBalancer": {}}}


def kept_on_update(resource: Resource, before: Json, wanted: Json, subresource: str) -> Json:
    """Of an update to the object only what it may say; of one to its status only that.

    The identity stays what it was in either.
    """
    result = dict(wanted)
    if "status" in resource.subresources:
        if subresource == "status":
            result = {**before, "metadata": wanted["metadata"], "status": wanted.get("status") or {}}
        elif "status" in before:
            result["status"] = before["status"]
        else:
            result.pop("status", None)
    fixed = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generateName")
    metadata = {key: value for key, value in wanted["metadata"].items() if key not in fixed and value is not None}
    metadata |= {key: before["metadata"][key] for key in fixed if key in before["metadata"]}
    return {**result, "metadata": metadata}


def _pod(item: Json) -> Json:
    spec = {**POD_DEFAULTS, **(item.get("spec") or {})}
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [_container(each) for each in spec[field]]
    spec["tolerations"] = [*(spec.get("tolerations") or []), *_missing_tolerations(spec.get("tolerations") or [])]
    status = {"phase": "Pending", "qosClass": _quality(spec)}
    metadata = {**item["metadata"], "generation": 1}
    return {**item, "metadata": metadata, "spec": spec, "status": status}


def _container(container: Json) -> Json:
    filled = {**CONTAINER_DEFAULTS, **container}
    resources = filled["resources"] or {}
    if limits := resources.get("limits"):
        filled["resources"] = {**resources, "requests": {**limits, **(resources.get("requests") or {})}}
    if "ports" in filled:
        filled["ports"] = [{"protocol": "TCP", **port} for port in filled["ports"]]
    return filled


def _missing_tolerations(given: list[Json]) -> list[Json]:
    keys = {each.get("key") for each in given}
    if None in keys:  # one without a key tolerates everything
        return []
    return [each for each in UNREACHABLE_TOLERATIONS if each["key"] not in keys]


def _quality(spec: Json) -> str:
    resources = [each.get("resources") or {} for each in spec.get("containers") or []]
    if not any(each.get("requests") or each.get("limits") for each in resources):
        return "BestEffort"
    guaranteed = all(
        {"cpu", "memory"} <= (each.get("limits") or {}).keys() and each.get("limits") == each.get("requests")
        for each in resources
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _secret(item: Json) -> Json:
    plain = item.get("stringData") or {}
    data = {**(item.get("data") or {}), **{key: base64.b64encode(plain[key].encode()).decode() for key in plain}}
    filled = {"type": "Opaque", **item, **({"data": data} if data else {})}
    filled.pop("stringData", None)
    return filled


def _node(item: Json) -> Json:
    spec = item.get("spec") or {}
    return {**item, "spec": {**spec, "taints": [*(spec.get("taints") or []), NOT_READY]}}


def _namespace(item: Json) -> Json:
    metadata = item["metadata"]
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
    spec = {**(item.get("spec") or {}), "finalizers": ["kubernetes"]}
    return {**item, "metadata": {**metadata, "labels": labels}, "spec": spec, "status": {"phase": "Active"}}
