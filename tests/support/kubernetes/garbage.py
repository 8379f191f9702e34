"""What the controller manager does behind the API server: owner references, and namespaces that end.

`sweep` is called after every write and looks at what may have lost its last owner. An owner that was deleted in the
foreground waits for its dependents; one that was deleted as an orphan-maker leaves them without it.
"""

from __future__ import annotations

from tests.support.kubernetes import resources as kinds
from tests.support.kubernetes.registry import FOREGROUND, ORPHAN, DeleteOptions, Registry
from tests.support.kubernetes.resources import Json, Resource
from tests.support.kubernetes.store import Store


class GarbageCollector:
    """Deletes what nobody owns any more."""

    def __init__(self, store: Store, registry: Registry):
        self._store = store
        self._registry = registry

    def sweep(self) -> None:
        """Until nothing more is to be done."""
        while self._sweep_once():
            pass

    def _sweep_once(self) -> bool:
        revision = self._store.revision
        everything = list(self._store.everything())
        living = {item["metadata"]["uid"]: item for _, item in everything}
        for resource, item in everything:
            finalizers = item["metadata"].get("finalizers") or []
            deleting = bool(item["metadata"].get("deletionTimestamp"))
            if deleting and ORPHAN in finalizers:
                self._orphan(item, everything)
                self._drop_finalizer(resource, item, ORPHAN)
            elif deleting and FOREGROUND in finalizers:
                self._foreground(resource, item, everything)
            elif not deleting and _abandoned(item, living):
                self._delete(resource, item)
        self._end_namespaces()
        return self._store.revision != revision

    def _foreground(self, resource: Resource, owner: Json, everything: list[tuple[Resource, Json]]) -> None:
        uid = owner["metadata"]["uid"]
        blocking = False
        for kind, item in everything:
            for reference in item["metadata"].get("ownerReferences") or []:
                if reference["uid"] == uid and self._store.get(kind, _name(item)) is not None:
                    blocking = blocking or bool(reference.get("blockOwnerDeletion"))
                    if not item["metadata"].get("deletionTimestamp"):
                        self._delete(kind, item)
        if not blocking:
            self._drop_finalizer(resource, owner, FOREGROUND)

    def _orphan(self, owner: Json, everything: list[tuple[Resource, Json]]) -> None:
        uid = owner["metadata"]["uid"]
        for resource, item in everything:
            references = item["metadata"].get("ownerReferences") or []
            kept = [each for each in references if each["uid"] != uid]
            if len(kept) != len(references):
                self._store.put(resource, {**item, "metadata": {**item["metadata"], "ownerReferences": kept}})

    def _drop_finalizer(self, resource: Resource, item: Json, finalizer: str) -> None:
        current = self._store.get(resource, _name(item))
        if current is None:
            return
        left = [each for each in current["metadata"].get("finalizers") or [] if each != finalizer]
        metadata = {**current["metadata"], "finalizers": left}
        namespace, name = _name(item)
        self._registry.patch(resource, namespace, name, lambda _: {**current, "metadata": metadata})

    def _delete(self, resource: Resource, item: Json) -> None:
        namespace, name = _name(item)
        if self._store.get(resource, (namespace, name)) is not None:
            self._registry.delete(resource, namespace, name, DeleteOptions(uid=item["metadata"]["uid"]))

    def _end_namespaces(self) -> None:
        for namespace in self._store.items(kinds.NAMESPACES):
            if not namespace["metadata"].get("deletionTimestamp"):
                continue
            name = namespace["metadata"]["name"]
            content = [each for each in self._store.everything() if each[1]["metadata"].get("namespace") == name]
            for resource, item in content:
                if not item["metadata"].get("deletionTimestamp"):
                    self._delete(resource, item)
            if not content:
                self._store.remove(kinds.NAMESPACES, ("", name))


def _name(item: Json) -> tuple[str, str]:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _abandoned(item: Json, living: dict[str, Json]) -> bool:
    references = item["metadata"].get("ownerReferences") or []
    return bool(references) and all(each["uid"] not in living for each in references)
