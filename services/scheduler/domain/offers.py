"""Pools and instance types as their users may see and change them.

A dedicated pool is seen by its members and by admins only. An instance type is seen with the pools that the asker may
use, not at all where there are none, and with its price only where one of them is public.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TypeVar

from services.scheduler.domain.explaining.changes import Offers, as_yaml
from services.scheduler.domain.nodes import Request
from shared.catalog import Asker, Catalog, Cluster, InstanceType, Pool
from shared.catalog.access import may_use_pool
from shared.documents.fields import shown
from shared.errors import Violation

Offer = TypeVar("Offer", Pool, InstanceType)


def stamped(document: Offer, before: Offer | None, now: datetime) -> Offer:
    """The document as it is kept: with the times of its making and its last change, and nothing else filled in."""
    created = before.metadata.created_at if before else now
    metadata = before.metadata if before else document.metadata
    times = {"name": document.name, "created_at": created, "updated_at": now}
    return document.model_copy(update={"metadata": metadata.model_validate(times, by_name=True), "status": None})


def usable_pools(view: Catalog, asker: Asker) -> dict[str, Pool]:
    """Pools that the asker may use, by name."""
    return {pool.name: pool for pool in view.all(Pool) if may_use_pool(pool, asker)}


def seen_by(kind: InstanceType, view: Catalog, asker: Asker) -> InstanceType | None:
    """The instance type as the asker sees it; admins see all of it."""
    if asker.admin:
        return kind
    usable = usable_pools(view, asker)
    pools = tuple(name for name in kind.spec.pools if name in usable)
    if not pools:
        return None
    public = any(usable[name].spec.type == "public" for name in pools)
    spec = kind.spec.model_copy(update={"pools": pools, "price_per_hour": kind.spec.price_per_hour if public else None})
    return kind.model_copy(update={"spec": spec})


def alternatives(instance_type: str, cluster: str, view: Catalog, asker: Asker) -> dict[str, str]:
    """Pools of the cluster that the asker may use and that offer the instance type, with how a job names each."""
    kind = view.get(InstanceType, instance_type)
    usable = usable_pools(view, asker)
    offered = kind.spec.pools if kind else ()
    return {name: _choice(usable[name]) for name in offered if name in usable and usable[name].spec.cluster == cluster}


def _choice(pool: Pool) -> str:
    """`pool` of a role in this pool, as YAML."""
    return "{type: public}" if pool.spec.type == "public" else f"{{type: dedicated, name: {as_yaml(pool.name)}}}"


def other_offers(instance_type: str, pool: str, cluster: str, view: Catalog, asker: Asker) -> Offers:
    """What a role could have instead: pools that offer its instance type, and other instance types of its pool."""
    kinds = (seen_by(kind, view, asker) for kind in view.all(InstanceType) if kind.name != instance_type)
    types = {kind.name: _request(kind) for kind in kinds if kind is not None and pool in kind.spec.pools}
    return Offers(alternatives(instance_type, cluster, view, asker), types)


def _request(kind: InstanceType) -> Request:
    gpu = kind.spec.gpu
    return Request(kind.spec.cpu, kind.spec.memory, gpu.count if gpu else 0, (gpu.model or "") if gpu else "")


def pool_violations(pool: Pool, view: Catalog) -> Iterator[Violation]:
    """What is wrong with a pool, given the rest of the catalog."""
    spec = pool.spec
    if view.get(Cluster, spec.cluster) is None:
        known = ", ".join(cluster.name for cluster in view.all(Cluster)) or "none yet"
        message = f"there is no cluster {shown(spec.cluster)}; there is: {known}"
        yield Violation("/spec/cluster", "unknown-cluster", message)
    yield from _binding_violations(pool, view)
    if spec.type != "public":
        return
    if spec.members.users or spec.members.groups:
        message = "a public pool is open to everybody and has no members; leave them out or make the pool dedicated"
        yield Violation("/spec/members", "members-of-public-pool", message)
    for other in view.all(Pool):
        if other.name != pool.name and other.spec.type == "public" and other.spec.cluster == spec.cluster:
            message = (
                f"the cluster {shown(spec.cluster)} has a public pool already, {shown(other.name)}; make this dedicated"
            )
            yield Violation("/spec/type", "second-public-pool", message)


def _binding_violations(pool: Pool, view: Catalog) -> Iterator[Violation]:
    spec, cluster = pool.spec, view.get(Cluster, pool.spec.cluster)
    if cluster is not None and cluster.spec.engine != "kubernetes":
        for field, value, usual in (
            ("binding", spec.binding, "scheduler"),
            ("gangScheduler", spec.gang_scheduler, "trainmaster"),
            ("runAsUser", str(spec.run_as_user or ""), ""),
        ):
            if value != usual:
                way_out = f"give {usual}" if usual else "leave it out"
                message = f"{shown(value)} is for clusters of Kubernetes, and {shown(spec.cluster)} is none; {way_out}"
                yield Violation(f"/spec/{field}", "needs-kubernetes", message)
    elif cluster is not None and spec.gang_scheduler == "volcano" and not cluster.spec.volcano:
        where = f"the cluster {shown(spec.cluster)}"
        message = f"Volcano cannot be had in {where}: {cluster.spec.volcano_hint}; or give trainmaster"
        yield Violation("/spec/gangScheduler", "volcano-unavailable", message)
    if spec.queue and spec.gang_scheduler != "volcano":
        message = "a queue is one of Volcano's; give gangScheduler: volcano, too, or leave it out"
        yield Violation("/spec/queue", "queue-without-volcano", message)


def instance_type_violations(kind: InstanceType, view: Catalog) -> Iterator[Violation]:
    """What is wrong with an instance type, given the rest of the catalog."""
    known = {pool.name for pool in view.all(Pool)}
    for index, name in enumerate(kind.spec.pools):
        if name not in known:
            message = f"there is no pool {shown(name)}; there is: {', '.join(sorted(known)) or 'none yet'}"
            yield Violation(f"/spec/pools/{index}", "unknown-pool", message)
