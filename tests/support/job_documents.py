"""Documents as the platform's API gives them, for tests of what reads them."""

from __future__ import annotations

from typing import Any

JOB_ID = "tj-abcdefghijkl"


def job_document(state: str = "Succeeded", **status: Any) -> dict[str, Any]:
    """A job of two replicas on two nodes."""
    return {
        "apiVersion": "trainmaster/v1",
        "kind": "TrainingJob",
        "metadata": {
            "id": JOB_ID,
            "name": "mnist-ddp",
            "owner": "ada",
            "project": "vision",
            "labels": ["demo", "mnist"],
            "createdAt": "2026-01-02T12:00:00.000Z",
            "sequence": 17,
        },
        "spec": {
            "image": {"source": "platform", "ref": "pytorch-2.3"},
            "priority": 5,
            "mounts": [{"type": "storage", "source": "team", "mountPath": "/mnt/data", "readOnly": False}],
            "roles": [
                {
                    "name": "worker",
                    "replicas": 2,
                    "pool": {"type": "public"},
                    "instanceType": "cpu-small",
                    "command": "torchrun train.py",
                }
            ],
        },
        "status": {
            "state": state,
            "reason": state.lower(),
            "message": "",
            "attempt": 1,
            "submittedAt": "2026-01-02T12:00:00.000Z",
            "startedAt": "2026-01-02T12:00:01.500Z",
            "endedAt": "2026-01-02T12:03:11.500Z",
            "attempts": [attempt_document()],
            **status,
        },
    }


def attempt_document(*codes: int) -> dict[str, Any]:
    """An attempt whose replicas exited with these codes."""
    exits = codes or (0, 0)
    return {
        "number": 1,
        "queuedAt": "2026-01-02T12:00:00.000Z",
        "placedAt": "2026-01-02T12:00:00.200Z",
        "startedAt": "2026-01-02T12:00:01.500Z",
        "endedAt": "2026-01-02T12:03:11.500Z",
        "endReason": "failed" if any(exits) else "completed",
        "message": "",
        "placement": {
            "cluster": "main",
            "roles": [
                {
                    "role": "worker",
                    "pool": "public-main",
                    "nodes": [f"node-{index}" for index in range(len(exits))],
                    "devices": [[f"GPU-{index}"] for index in range(len(exits))],
                }
            ],
        },
        "replicas": [
            {
                "role": "worker",
                "index": index,
                "node": f"node-{index}",
                "state": "Failed" if code else "Succeeded",
                "startedAt": "2026-01-02T12:00:01.000Z",
                "endedAt": "2026-01-02T12:03:11.000Z",
                "exit": {"code": code, "signal": None, "outOfMemory": "none"},
            }
            for index, code in enumerate(exits)
        ],
        "decision": {"retry": False, "reason": "all replicas succeeded", "rule": None},
    }


def event_document(name: str, second: float = 0, attempt: int = 1, /, **data: Any) -> dict[str, Any]:
    """A CloudEvent of a job; `name` as in `job.placed`."""
    return {
        "specversion": "1.0",
        "id": f"{JOB_ID}/{attempt}/{name}",
        "source": "/trainmaster/scheduler",
        "type": f"trainmaster.{name}.v1",
        "subject": JOB_ID,
        "time": f"2026-01-02T12:00:{second:06.3f}Z",
        "attempt": attempt,
        "data": data,
    }
