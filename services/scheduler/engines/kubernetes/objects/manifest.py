"""Common parts of manifests: how every object of a gang is named, labelled and owned.

The ConfigMap with the gang's record owns everything else, so that its deletion is the deletion of all. Manifests are
plain JSON documents, since they go to the API server as they are.
"""

from __future__ import annotations

from typing import Any

from services.scheduler.engines.kubernetes.objects.labels import gang_labels, human_names
from services.scheduler.ports.gangs import GangStart

Json = dict[str, Any]


def object_of(kind: str, name: str, gang: GangStart, namespace: str, cluster: str, *, api: str = "v1") -> Json:
    """An object of the gang without its contents."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": gang_labels(gang, cluster),
        "annotations": human_names(gang),
    }
    return {"apiVersion": api, "kind": kind, "metadata": metadata}


def owned(document: Json, record: str, uid: str) -> Json:
    """The object as a belonging of the gang's record, whose name and uid these are."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": record, "uid": uid}
    return {**document, "metadata": {**document["metadata"], "ownerReferences": [owner]}}
