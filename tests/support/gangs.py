"""Gangs to start, as the scheduler makes them, and what is found in their manifests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from services.scheduler.engines.kubernetes.objects import GangObjects, ObjectSettings, gang_objects
from services.scheduler.ports.gangs import GangStart, PoolTerms, ReplicaStart
from shared.environment import GangEnvironment, GangShape, RoleShape, rank_order

JOB = "tj-abcdefghijkl"
GIB = 1 << 30
UID = "1f9b6c1e-0000-4000-8000-000000000001"
SETTINGS = ObjectSettings(platform_image="registry.example/trainmaster:1")


def a_gang(
    roles: dict[str, int] | None = None,
    *,
    command: str = "torchrun train.py",
    env: dict[str, str] | None = None,
    gpus: int = 0,
    gpu_model: str = "",
    pool: PoolTerms | None = None,
    memory_bytes: int = GIB,
    **parts: Any,
) -> GangStart:
    shapes = tuple(RoleShape(name, count, gpus) for name, count in (roles or {"worker": 2}).items())
    environment = GangEnvironment(GangShape(job=JOB, name="mnist", attempt=1, roles=shapes, user=env or {}))
    replicas = tuple(
        ReplicaStart(
            role=role.name,
            index=index,
            node=f"n-{index % 1250}",
            command=command,
            env=environment.variables(role.name, index),
            memory_bytes=memory_bytes,
            cpu_m=500,
            gpus=gpus,
            gpu_model=gpu_model,
            pool=pool or PoolTerms(),
        )
        for role in rank_order(shapes)
        for index in range(role.replicas)
    )
    given: dict[str, Any] = {
        "job": JOB,
        "attempt": 1,
        "owner": "u-1",
        "project": "vision",
        "cluster": "main",
        "job_name": "mnist",
        "image": "registry.example/train:1",
        "files": environment.files,
    }
    return GangStart(replicas=replicas, **(given | parts))


def objects_of(gang: GangStart, settings: ObjectSettings = SETTINGS) -> GangObjects:
    return gang_objects(gang, settings)


def manifests_of(gang: GangStart, settings: ObjectSettings = SETTINGS) -> Iterator[dict[str, Any]]:
    objects = objects_of(gang, settings)
    yield objects.record
    yield from objects.owned_by(UID)
    yield from (objects.pod(replica, UID) for replica in gang.replicas)


def first_pod(gang: GangStart, settings: ObjectSettings = SETTINGS) -> dict[str, Any]:
    return objects_of(gang, settings).pod(gang.replicas[0], UID)


def of_kind(gang: GangStart, kind: str, settings: ObjectSettings = SETTINGS) -> list[dict[str, Any]]:
    return [each for each in objects_of(gang, settings).owned_by(UID) if each["kind"] == kind]


def container(pod: dict[str, Any], name: str = "replica") -> dict[str, Any]:
    spec = pod["spec"]
    return next(each for each in (*spec["initContainers"], *spec["containers"]) if each["name"] == name)


def variables(pod: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container(pod)["env"]}


def common_of(gang: GangStart, settings: ObjectSettings = SETTINGS) -> dict[str, str]:
    """Variables that stand in ConfigMaps."""
    config_maps = [each for each in of_kind(gang, "ConfigMap", settings) if "-env-" in each["metadata"]["name"]]
    return {name: value for each in config_maps for name, value in each["data"].items()}


def environment_of(gang: GangStart, settings: ObjectSettings = SETTINGS) -> dict[str, str]:
    """All variables of the first replica but its secrets."""
    return common_of(gang, settings) | variables(first_pod(gang, settings))
