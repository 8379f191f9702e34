"""Who places a replica's pod: the platform itself, which makes it on the node that was decided, or somebody it asks.

A pod that is left to Kubernetes is held back by a gate until all pods of the gang are there, since it may take no place
before the gang is whole. Volcano waits for the whole gang itself.
"""

from __future__ import annotations

from typing import Final

from services.scheduler.engines.kubernetes.objects.manifest import Json
from services.scheduler.engines.kubernetes.objects.pod_group import SCHEDULER as VOLCANO
from services.scheduler.engines.kubernetes.objects.settings import ObjectSettings, Toleration
from services.scheduler.ports.gangs import GangStart, PoolTerms, ReplicaStart
from shared.kubernetes.names import GANG_GATE, SCHEDULER_NAME

_HOST_NAME: Final = "metadata.name"


def scheduling(gang: GangStart, replica: ReplicaStart, settings: ObjectSettings) -> Json:
    """The part of a pod's spec that says who places it and where it may be."""
    tolerations = {"tolerations": [_toleration(each) for each in settings.tolerations]} if settings.tolerations else {}
    return {**_placed_by(gang, replica), **tolerations}


def _placed_by(gang: GangStart, replica: ReplicaStart) -> Json:
    if gang.gang_scheduler == "volcano":
        return {"schedulerName": VOLCANO, **_within(replica.pool)}
    if replica.pool.binding == "kubernetes":
        return {"schedulingGates": [{"name": GANG_GATE}], **_within(replica.pool)}
    return {"schedulerName": SCHEDULER_NAME}


def _within(pool: PoolTerms) -> Json:
    """Nodes of the pool alone: those named, and those that have all of its labels; without those that are barred."""
    barred = [_named("NotIn", name) for name in sorted(pool.barred)]
    others = {"matchFields": barred} if barred else {}
    terms: list[Json] = []
    if pool.node_labels:
        labels = [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(pool.node_labels.items())]
        terms.append({"matchExpressions": labels, **others})
    # A term takes one name only. A node that is barred keeps its term, as no term at all would let all nodes in.
    terms += [
        {"matchFields": [_named("In", name), *([_named("NotIn", name)] if name in pool.barred else [])]}
        for name in sorted(pool.node_names)
    ]
    if not terms and others:
        terms.append(others)
    if not terms:
        return {}
    required = {"nodeSelectorTerms": terms}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def _named(operator: str, name: str) -> Json:
    return {"key": _HOST_NAME, "operator": operator, "values": [name]}


def _toleration(taint: Toleration) -> Json:
    effect = {"effect": taint.effect} if taint.effect else {}
    how = {"operator": "Equal", "value": taint.value} if taint.value else {"operator": "Exists"}
    return {"key": taint.key, **how, **effect}
