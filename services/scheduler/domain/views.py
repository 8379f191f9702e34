"""Nodes, pools and standings as JSON documents of the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from services.scheduler.domain.explaining.changes import Change
from services.scheduler.domain.explaining.holders import Held
from services.scheduler.domain.gang import Pool
from services.scheduler.domain.node_life import NodeLife, Return
from services.scheduler.domain.nodes import Node, NodeState, Room
from services.scheduler.domain.standing import Standing
from shared.catalog import Cluster
from shared.catalog.fields import format_cpu
from shared.clock import rfc3339
from shared.units import format_bytes


def node_document(life: NodeLife, room: Room, pools: Iterable[str]) -> dict[str, Any]:
    """A node, what it has, what of it is free, the state that it is in and why, and the pools that it is in."""
    node = room.node
    return {
        "apiVersion": "trainmaster/v1",
        "kind": "Node",
        "metadata": {"id": node.id, "name": node.name, "labels": dict(node.labels)},
        "spec": {
            "cluster": node.cluster,
            **_amounts(node.cpu_m, node.memory_bytes, len(node.devices)),
            "gpuModels": sorted({device.model for device in node.devices}),
        },
        "status": {
            "state": life.state,
            "reason": life.reason,
            "by": life.by,
            "since": rfc3339(life.since) if life.since else None,
            "quarantineWithheld": life.withheld,
            "returning": _returning(life.returning),
            "pools": sorted(pools),
            "free": _amounts(room.cpu_m, room.memory_bytes, len(room.devices)),
        },
    }


def _returning(wanted: Return | None) -> dict[str, Any] | None:
    """Who wants a bad node back, which is tested before."""
    return {"by": wanted.by, "reason": wanted.reason, "since": rfc3339(wanted.since)} if wanted else None


def cluster_document(cluster: Cluster, rooms: Iterable[Room]) -> dict[str, Any]:
    """A cluster, what can be mounted there, and how much its nodes have; not its pools, which not everybody sees."""
    spec = cluster.spec
    return {
        "apiVersion": "trainmaster/v1",
        "kind": "Cluster",
        "metadata": {"name": cluster.name},
        "spec": {
            "first": spec.first,
            "mounts": spec.mounts,
            "mountsHint": spec.mounts_hint,
            "schemes": list(spec.schemes),
            "volcano": spec.engine == "kubernetes" and spec.volcano,
        },
        "status": _status_of([room for room in rooms if room.node.cluster == cluster.name]),
    }


def pool_status(pool: Pool | None, rooms: Iterable[Room]) -> dict[str, Any]:
    """How much the nodes of a pool have and how much of it is free."""
    return _status_of([room for room in rooms if pool is not None and pool.has(room.node)])


def _status_of(here: Sequence[Room]) -> dict[str, Any]:
    ready = [room for room in here if room.node.state is NodeState.READY]
    return {
        "nodes": len(here),
        "ready": len(ready),
        "total": _amounts(
            sum(room.node.cpu_m for room in here),
            sum(room.node.memory_bytes for room in here),
            sum(len(room.node.devices) for room in here),
        ),
        "free": _amounts(
            sum(max(room.cpu_m, 0) for room in ready),
            sum(max(room.memory_bytes, 0) for room in ready),
            sum(len(room.devices) for room in ready),
        ),
    }


def standing_document(standing: Standing) -> dict[str, Any]:
    """Where a job stands."""
    return {
        "job": standing.job,
        "state": standing.state,
        "position": standing.position,
        "rivals": standing.rivals,
        "summary": standing.summary,
        "blockers": [asdict(blocker) for blocker in standing.blockers],
        "held": [_held(held) for held in standing.held],
        "changes": [_change(change) for change in standing.changes],
        "suggestions": [*(f"{change.text} would start it now" for change in standing.changes), *standing.advice],
        "expectedStartAt": rfc3339(standing.expected_at) if standing.expected_at else None,
        "neverFits": standing.never_fits,
        "warnings": list(standing.warnings),
        "placement": asdict(standing.place) | {"why": standing.place.text} if standing.place else None,
    }


def _held(held: Held) -> dict[str, Any]:
    holders = [
        {
            "job": holder.job,
            "amount": holder.amount,
            "endsBy": rfc3339(holder.ends_by) if holder.ends_by else None,
        }
        for holder in held.holders
    ]
    return {"resource": held.resource, "pool": held.pool, "by": holders, "byOthers": held.others}


def _change(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "role": change.role or None,
        "from": change.before or None,
        "to": change.after or None,
        "settings": list(change.settings),
        "text": change.text,
    }


def pools_of(room: Room, pools: Mapping[str, Pool]) -> list[str]:
    """Names of the pools that the room's node is in."""
    return pools_of_node(room.node, pools)


def pools_of_node(node: Node, pools: Mapping[str, Pool]) -> list[str]:
    """Names of the pools that the node is in."""
    return [name for name, pool in pools.items() if pool.has(node)]


def _amounts(cpu_m: int, memory_bytes: int, gpus: int) -> dict[str, Any]:
    return {"cpu": format_cpu(cpu_m), "memory": format_bytes(max(memory_bytes, 0)), "gpus": gpus}
