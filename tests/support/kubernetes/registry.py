"""Creation, update and deletion of objects, as the API server does them.

Every write is checked against the revision that its author saw. A pod that is bound to a node is not gone when it is
deleted: it gets a deletion timestamp and a grace period, and ends when its kubelet deletes it again without grace.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from tests.support.kubernetes import resources as kinds
from tests.support.kubernetes.defaults import Defaulter, kept_on_update
from tests.support.kubernetes.errors import (
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    modified,
    not_found,
)
from tests.support.kubernetes.quotas import check_quota
from tests.support.kubernetes.resources import Json, Resource
from tests.support.kubernetes.selectors import Selector
from tests.support.kubernetes.store import Store
from tests.support.kubernetes.validation import check_change, check_new

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
ENDED: Final = {"Succeeded", "Failed"}
RANDOM_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True)
class DeleteOptions:
    """What the author of a deletion asks for."""

    grace_period_s: int | None = None
    propagation: str = "Background"
    uid: str | None = None
    resource_version: str | None = None


def delete_options(body: Json, query: dict[str, str]) -> DeleteOptions:
    """From the body, or where that says nothing from the query."""
    grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    preconditions = body.get("preconditions") or {}
    return DeleteOptions(
        None if grace is None else int(grace),
        body.get("propagationPolicy") or query.get("propagationPolicy") or "Background",
        preconditions.get("uid"),
        preconditions.get("resourceVersion"),
    )


def timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Registry:
    """The objects, and the rules of changing them."""

    def __init__(self, store: Store, now: Callable[[], datetime]):
        self.store = store
        self._now = now
        self._defaults = Defaulter()

    def get(self, resource: Resource, namespace: str, name: str) -> Json:
        found = self.store.get(resource, (namespace, name))
        if found is None:
            raise not_found(resource, name)
        return found

    def create(self, resource: Resource, namespace: str, body: Json) -> Json:
        metadata = dict(body.get("metadata") or {})
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion can not be set for Create requests")
        if metadata.get("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if resource.namespaced:
            metadata["namespace"] = namespace
        metadata["name"] = _chosen_name(resource, metadata)
        self._check_namespace(resource, namespace, metadata["name"])
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": timestamp(self._now())}
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"):
            metadata.pop(field, None)
        header = {"apiVersion": resource.api_version, "kind": resource.kind}
        item = self._defaults.fill(resource, {**body, **header, "metadata": metadata})
        check_new(resource, item)
        if resource is kinds.PODS:
            self._check_account(item)
        if self.store.get(resource, (namespace, metadata["name"])) is not None:
            raise already_exists(resource, metadata["name"])
        check_quota(self.store, resource, item)
        return self.store.put(resource, item)

    def update(self, resource: Resource, namespace: str, name: str, body: Json, subresource: str = "") -> Json:
        before = self.get(resource, namespace, name)
        metadata = {**(body.get("metadata") or {})}
        _check_identity(resource, before, {"name": name, **metadata})
        metadata |= {"name": name, **({"namespace": namespace} if resource.namespaced else {})}
        header = {"apiVersion": resource.api_version, "kind": resource.kind}
        return self._replace(resource, before, {**body, **header, "metadata": metadata}, subresource)

    def patch(
        self, resource: Resource, namespace: str, name: str, change: Callable[[Json], Json], subresource: str = ""
    ) -> Json:
        before = self.get(resource, namespace, name)
        wanted = change(before)
        _check_identity(resource, before, wanted["metadata"])
        return self._replace(resource, before, wanted, subresource)

    def delete(self, resource: Resource, namespace: str, name: str, options: DeleteOptions) -> tuple[Json, bool]:
        """The object as its deletion leaves it, and whether it is gone."""
        item = self.get(resource, namespace, name)
        _check_preconditions(resource, item, options)
        item = self._with_propagation(resource, item, options)
        grace_s = _grace_s(resource, item, options)
        if resource is kinds.NAMESPACES:
            return self._terminating(resource, item, 0), False
        if grace_s > 0 or item["metadata"].get("finalizers"):
            return self._terminating(resource, item, grace_s), False
        return self.store.remove(resource, (namespace, name)), True

    def delete_all(self, resource: Resource, selector: Selector, options: DeleteOptions) -> list[Json]:
        chosen = [item for item in self.store.items(resource) if selector.matches(item)]
        for item in chosen:
            self.delete(resource, item["metadata"].get("namespace", ""), item["metadata"]["name"], options)
        return chosen

    def bind(self, namespace: str, name: str, binding: Json) -> None:
        """The pod gets the node that the binding names, unless it has one."""
        target = binding.get("target") or {}
        if not target.get("name"):
            raise invalid(kinds.PODS, name, "target.name", "Required value", "FieldValueRequired")
        pod = self.get(kinds.PODS, namespace, name)
        wanted_uid = (binding.get("metadata") or {}).get("uid")
        if wanted_uid and wanted_uid != pod["metadata"]["uid"]:
            raise conflict(kinds.PODS, name, _uid_sentence(wanted_uid, pod))
        if pod["metadata"].get("deletionTimestamp"):
            raise _binding_conflict(name, f"pod {name} is being deleted, cannot be assigned to a host")
        if node := pod["spec"].get("nodeName"):
            raise _binding_conflict(name, f'pod {name} is already assigned to node "{node}"')
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": timestamp(self._now()),
        }
        others = [each for each in pod["status"].get("conditions", []) if each["type"] != "PodScheduled"]
        status = {**pod["status"], "conditions": [*others, scheduled]}
        self.store.put(kinds.PODS, {**pod, "spec": {**pod["spec"], "nodeName": target["name"]}, "status": status})

    def evict(self, namespace: str, name: str, options: DeleteOptions) -> None:
        """Delete the pod, once its status says that this is no doing of its own."""
        pod = self.get(kinds.PODS, namespace, name)
        evicted = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastTransitionTime": timestamp(self._now()),
        }
        conditions = [*pod["status"].get("conditions", []), evicted]
        self.store.put(kinds.PODS, {**pod, "status": {**pod["status"], "conditions": conditions}})
        self.delete(kinds.PODS, namespace, name, options)

    def _replace(self, resource: Resource, before: Json, wanted: Json, subresource: str) -> Json:
        item = kept_on_update(resource, before, wanted, subresource)
        name = item["metadata"]["name"]
        check_change(resource, before, item)
        item["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
        if item == before:
            return before
        if _ready_to_go(item):
            self.store.put(resource, item)
            return self.store.remove(resource, (item["metadata"].get("namespace", ""), name))
        return self.store.put(resource, item)

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        if not resource.namespaced:
            return
        found = self.get(kinds.NAMESPACES, "", namespace)
        if found["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            refused = forbidden(resource, name, why)
            cause = {"reason": "NamespaceTerminating", "message": f"namespace {namespace} is being terminated"}
            refused.details["causes"] = [{**cause, "field": "metadata.namespace"}]
            raise refused

    def _check_account(self, pod: Json) -> None:
        namespace, account = pod["metadata"]["namespace"], pod["spec"]["serviceAccountName"]
        if self.store.get(kinds.SERVICE_ACCOUNTS, (namespace, account)) is None:
            missing = not_found(kinds.SERVICE_ACCOUNTS, account).message.replace("serviceaccounts", "serviceaccount")
            why = f"error looking up service account {namespace}/{account}: {missing}"
            raise forbidden(kinds.PODS, pod["metadata"]["name"], why)

    def _with_propagation(self, resource: Resource, item: Json, options: DeleteOptions) -> Json:
        finalizer = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(options.propagation)
        held = item["metadata"].get("finalizers") or []
        if finalizer is None or finalizer in held:
            return item
        return {**item, "metadata": {**item["metadata"], "finalizers": [*held, finalizer]}}

    def _terminating(self, resource: Resource, item: Json, grace_s: int) -> Json:
        metadata = item["metadata"]
        left_s = metadata.get("deletionGracePeriodSeconds")
        if metadata.get("deletionTimestamp") and (left_s is None or left_s <= grace_s):
            return item
        end = timestamp(self._now() + timedelta(seconds=grace_s))
        metadata = {**metadata, "deletionTimestamp": end, "deletionGracePeriodSeconds": grace_s}
        item = {**item, "metadata": metadata}
        if resource is kinds.NAMESPACES:
            item["metadata"].pop("deletionGracePeriodSeconds")
            item["status"] = {**(item.get("status") or {}), "phase": "Terminating"}
        return self.store.put(resource, item)


def _chosen_name(resource: Resource, metadata: Json) -> str:
    if name := metadata.get("name"):
        return str(name)
    if prefix := metadata.get("generateName"):
        return str(prefix) + "".join(secrets.choice(RANDOM_LETTERS) for _ in range(5))
    raise invalid(
        resource, "", "metadata.name", "Required value: name or generateName is required", "FieldValueRequired"
    )


def _check_identity(resource: Resource, before: Json, metadata: Json) -> None:
    name, held = before["metadata"]["name"], before["metadata"]
    if metadata.get("name", name) != name:
        raise bad_request(f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})")
    if metadata.get("uid") and metadata["uid"] != held["uid"]:
        raise conflict(resource, name, _uid_sentence(metadata["uid"], before))
    if metadata.get("resourceVersion") and metadata["resourceVersion"] != held["resourceVersion"]:
        raise modified(resource, name)


def _check_preconditions(resource: Resource, item: Json, options: DeleteOptions) -> None:
    metadata = item["metadata"]
    if options.uid and options.uid != metadata["uid"]:
        raise conflict(resource, metadata["name"], _uid_sentence(options.uid, item))
    if options.resource_version and options.resource_version != metadata["resourceVersion"]:
        why = (
            f"Precondition failed: ResourceVersion in precondition: {options.resource_version}, "
            f"ResourceVersion in object meta: {metadata['resourceVersion']}"
        )
        raise conflict(resource, metadata["name"], why)


def _uid_sentence(wanted: str, item: Json) -> str:
    return f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {item['metadata']['uid']}"


def _binding_conflict(name: str, why: str) -> Exception:
    refused = conflict(kinds.PODS, name, why)
    refused.message = f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
    refused.details["kind"] = "pods/binding"
    return refused


def _grace_s(resource: Resource, item: Json, options: DeleteOptions) -> int:
    if resource is not kinds.PODS:
        return 0
    if not item["spec"].get("nodeName") or (item.get("status") or {}).get("phase") in ENDED:
        return 0
    asked = options.grace_period_s
    wanted = item["spec"]["terminationGracePeriodSeconds"] if asked is None else asked
    return max(0, int(wanted))


def _ready_to_go(item: Json) -> bool:
    metadata = item["metadata"]
    waits = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return bool(metadata.get("deletionTimestamp")) and not waits and item["kind"] != "Namespace"
