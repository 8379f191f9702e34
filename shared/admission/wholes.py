"""Gangs that can never fit as a whole, although each of their roles would: what roles share, and one leaf or spine.

Like sizes of single roles these are judged by what the cluster's document says of its nodes, with nothing else running.
Of roles in one pool the sums of what they ask for are compared, which is enough to refuse and not to promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from shared.admission.sizes import PODS_MAX, amounts_text, gpus_of, holds, pods_of
from shared.catalog import Cluster
from shared.catalog.places import NodeDomain, NodeShape
from shared.documents.fields import shown
from shared.errors import Violation
from shared.events import ResolvedRole


@dataclass(frozen=True, slots=True)
class Sized:
    """A role and its number of replicas."""

    role: ResolvedRole
    replicas: int


def whole_violations(roles: Sequence[Sized], hard: str | None, cluster: Cluster) -> Iterator[Violation]:
    """What is wrong with the sizes of all roles together; `hard` is the level at which they must be in one domain."""
    for pool in dict.fromkeys(sized.role.pool_name for sized in roles):
        inside = [sized for sized in roles if sized.role.pool_name == pool]
        if len(inside) > 1:
            yield from _pool_violations(pool, inside, cluster)
    if hard is not None and cluster.spec.domains:
        yield from _domain_violations(roles, hard, cluster)


def _pool_violations(pool: str, roles: Sequence[Sized], cluster: Cluster) -> Iterator[Violation]:
    """Roles that together ask for more than the whole pool has; a pool without nodes is not judged."""
    shapes = [shape for shape in cluster.spec.shapes if pool in shape.pools]
    there, asked = [_all_of(shapes, amount) for amount in _OF_SHAPE], [_all(roles, amount) for amount in _OF_ROLE]
    if not shapes or all(need <= has for need, has in zip(asked, there, strict=True)):
        return
    part = min(has / need for need, has in zip(asked, there, strict=True) if need)
    told = slice(None if there[-1] < PODS_MAX else -1)
    sentence = (
        f"together the roles in pool {shown(pool)} need {amounts_text(*asked[told])}, and all of its nodes have "
        f"{amounts_text(*there[told])}, with nothing else running there; {_way_out(roles, part)}"
    )
    yield Violation("/spec/roles", "never-fits", sentence)


def _way_out(roles: Sequence[Sized], part: float) -> str:
    """What would fit of these roles, of which only this part does."""
    most = {sized.role.name: int(sized.replicas * part) for sized in roles}
    if not all(most.values()):
        return "give smaller instance types, or some of the roles another pool"
    return "in this proportion give at most " + ", ".join(f"{count} of {shown(name)}" for name, count in most.items())


_OF_SHAPE: tuple[Callable[[NodeShape], int], ...] = (
    lambda shape: shape.cpu_millis,
    lambda shape: shape.memory_bytes,
    lambda shape: gpus_of(shape, None),
    pods_of,
)
_OF_ROLE: tuple[Callable[[ResolvedRole], int], ...] = (
    lambda role: role.cpu_millis,
    lambda role: role.memory_bytes,
    lambda role: role.gpu_count,
    lambda _: 1,
)


def _all_of(shapes: Sequence[NodeShape], amount: Callable[[NodeShape], int]) -> int:
    return sum(shape.nodes * amount(shape) for shape in shapes)


def _all(roles: Sequence[Sized], amount: Callable[[ResolvedRole], int]) -> int:
    return sum(sized.replicas * amount(sized.role) for sized in roles)


def _domain_violations(roles: Sequence[Sized], level: str, cluster: Cluster) -> Iterator[Violation]:
    domains = [domain for domain in cluster.spec.domains if domain.level == level]
    held = [[_held(domain, sized.role, cluster) for sized in roles] for domain in domains]
    if any(all(most >= sized.replicas for most, sized in zip(each, roles, strict=True)) for each in held):
        return
    way_out = f"give topology.mode soft, or fewer replicas than one {level} holds"
    if len(roles) == 1:
        way_out = f"give at most {max(most for each in held for most in each)}, or topology.mode soft"
    replicas = sum(sized.replicas for sized in roles)
    sentence = f"no {level} holds all {replicas} replicas, with nothing else running there; {way_out}"
    yield Violation("/spec/topology", "never-fits", sentence)


def _held(domain: NodeDomain, role: ResolvedRole, cluster: Cluster) -> int:
    """How many replicas of the role the empty domain holds."""
    shapes = ((cluster.spec.shapes[int(number)], count) for number, count in domain.nodes.items())
    return sum(count * holds(shape, role) for shape, count in shapes if role.pool_name in shape.pools)
