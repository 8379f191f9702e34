"""Among which nodes somebody else may choose for a gang, where its pool leaves that to kube-scheduler or to Volcano.

They go by labels and names, and know nothing of what keeps this scheduler from a node: that it is quarantined or
drained, that the job does not want it, that it belongs to another pool, that its GPUs are of another model. So they are
told the nodes that must be left out of those that the pool's own selectors let in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from services.scheduler.domain.gang import Gang, Pool, RoleAsk
from services.scheduler.domain.nodes import Node, NodeState


@dataclass(frozen=True, slots=True)
class Among:
    """Names of nodes, for one role: those that its pool names, also by id, and those that are barred to it."""

    named: tuple[str, ...] = ()
    barred: tuple[str, ...] = ()


def among(gang: Gang, pools: Mapping[str, Pool], nodes: Iterable[Node]) -> dict[str, Among]:
    """What holds for each role whose pool is known."""
    known = tuple(nodes)
    return {role.name: _among(gang, role, pools[role.pool], known) for role in gang.roles if role.pool in pools}


def _among(gang: Gang, role: RoleAsk, pool: Pool, nodes: Iterable[Node]) -> Among:
    let_in = sorted(_let_in(pool, nodes), key=lambda node: node.name)
    return Among(
        tuple(node.name for node in let_in if node.is_named(pool.node_names)),
        tuple(node.name for node in let_in if not _may_have(gang, role, pool, node)),
    )


def _let_in(pool: Pool, nodes: Iterable[Node]) -> Iterator[Node]:
    """Those of the cluster that selectors let in: all, where there are none."""
    return (node for node in nodes if node.cluster == pool.cluster and (not pool.selects or pool.has(node)))


def _may_have(gang: Gang, role: RoleAsk, pool: Pool, node: Node) -> bool:
    if node.state is not NodeState.READY or not pool.has(node) or node.is_named(gang.avoided):
        return False
    models = {device.model for device in node.whole().devices}
    return not role.request.gpus or not role.request.gpu_model or role.request.gpu_model in models
