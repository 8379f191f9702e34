"""Job documents for tests: one that is right, and a way to make it wrong in one place."""

from __future__ import annotations

import copy
from typing import Any


def job_document(name: str = "mnist-ddp") -> dict[str, Any]:
    """A right document that uses most of what this version takes."""
    return {
        "apiVersion": "trainmaster/v1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "project": "vision", "labels": ["mnist", "demo"]},
        "spec": {
            "image": {"source": "platform", "ref": "pytorch-2.3"},
            "mounts": [
                {"type": "storage", "source": "team-data", "subPath": "mnist", "mountPath": "/mnt/data"},
                {"type": "dataset", "source": "dataset_mnist", "mountPath": "/mnt/set", "readOnly": True},
            ],
            "env": {"NCCL_DEBUG": "INFO"},
            "roles": [
                {"name": "master", "replicas": 1, "instanceType": "cpu-small", "command": "python train.py"},
                {"name": "worker", "replicas": 2, "instanceType": "cpu-small", "command": "python train.py"},
            ],
            "tensorboard": {"logDir": "/mnt/data/runs"},
            "checkpoint": {"dir": "/mnt/data/ckpt"},
            "priority": 5,
            "completion": {"succeedWhen": "role:master"},
            "startTimeout": "30m",
        },
    }


def small_job_document(name: str = "echo", command: str = "echo hello") -> dict[str, Any]:
    """The least that a job needs."""
    return {
        "apiVersion": "trainmaster/v1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {"image": "none", "roles": [{"replicas": 1, "instanceType": "cpu-small", "command": command}]},
    }


def changed(document: dict[str, Any], pointer: str, value: Any) -> dict[str, Any]:
    """A copy with another value at a JSON pointer; objects on the way are made, `-` appends to a list."""
    copied = copy.deepcopy(document)
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    here: Any = copied
    for part in parents:
        here = here[int(part)] if isinstance(here, list) else here.setdefault(part, {})
    if isinstance(here, list):
        here.append(value) if last == "-" else here.__setitem__(int(last), value)
    else:
        here[last] = value
    return copied


def without(document: dict[str, Any], pointer: str) -> dict[str, Any]:
    """A copy without what stands at a JSON pointer."""
    copied = copy.deepcopy(document)
    *parents, last = pointer.split("/")[1:]
    here: Any = copied
    for part in parents:
        here = here[int(part)] if isinstance(here, list) else here[part]
    del here[int(last) if isinstance(here, list) else last]
    return copied
