"""Documents of pods and nodes as an API server gives them, cut down to what is read."""

from __future__ import annotations

from typing import Any

from shared.kubernetes.names import ATTEMPT_LABEL, GANG_LABEL, INDEX_LABEL, JOB_LABEL, ROLE_LABEL

GANG = "tj-abcdefghijkl-1"
STARTED = "2026-01-01T00:00:10Z"
ENDED = "2026-01-01T00:01:00Z"
IMAGE = "registry.example/train:1"


def pod_document(
    *, index: int = 0, node: str = "node-a", status: dict[str, Any] | None = None, **metadata: Any
) -> dict[str, Any]:
    marks = {
        JOB_LABEL: "tj-abcdefghijkl",
        ATTEMPT_LABEL: "1",
        GANG_LABEL: GANG,
        ROLE_LABEL: "worker",
        INDEX_LABEL: str(index),
    }
    return {
        "metadata": {
            "name": f"{GANG}-worker-{index}",
            "namespace": "jobs",
            "uid": f"uid-{index}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": marks,
            **metadata,
        },
        "spec": {"containers": [{"name": "replica"}], **({"nodeName": node} if node else {})},
        "status": status or {"phase": "Pending"},
    }


def container(state: dict[str, Any], name: str = "replica") -> dict[str, Any]:
    return {"name": name, "image": IMAGE, "state": state}


def running(**status: Any) -> dict[str, Any]:
    state = {"running": {"startedAt": STARTED}}
    return {"phase": "Running", "containerStatuses": [container(state)], **status}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"phase": "Pending", "containerStatuses": [container({"waiting": {"reason": reason, "message": message}})]}


def terminated(code: int, reason: str = "Error", **more: Any) -> dict[str, Any]:
    how = {"exitCode": code, "reason": reason, "startedAt": STARTED, "finishedAt": ENDED, **more}
    phase = "Failed" if code else "Succeeded"
    return {"phase": phase, "containerStatuses": [container({"terminated": how})]}


def failed(reason: str, message: str = "", **status: Any) -> dict[str, Any]:
    return {"phase": "Failed", "reason": reason, "message": message, "startTime": STARTED, **status}


def disrupted(reason: str, message: str = "") -> dict[str, Any]:
    told = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    return {"conditions": [{**told, "lastTransitionTime": ENDED}]}
