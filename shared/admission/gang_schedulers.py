"""What can never be started: gangs of a pool that leaves them to somebody who cannot do what is asked for.

A pool whose cluster does not have the scheduler of gangs is refused when it is applied; Volcano may have gone since, or
the right to make its objects. Who chooses nodes in the place of the platform knows nothing of leaves and spines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shared.catalog import Catalog, Cluster, Pool
from shared.documents.fields import shown
from shared.errors import Violation


def gang_scheduler_violations(index: int, pool: str, cluster: Cluster, catalog: Catalog) -> Iterator[Violation]:
    """What is wrong with the pool of a role, which is one of the cluster."""
    found = catalog.get(Pool, pool)
    if found is not None and found.spec.gang_scheduler == "volcano" and not cluster.spec.volcano:
        sentence = (
            f"the pool {shown(pool)} leaves gangs to Volcano, which the cluster {shown(cluster.name)} cannot do: "
            f"{cluster.spec.volcano_hint}; or give another pool"
        )
        yield Violation(f"/spec/roles/{index}/pool", "volcano-unavailable", sentence)


def topology_violations(pools: Iterable[str], catalog: Catalog) -> Iterator[Violation]:
    """What is wrong with `hard` topology of a gang in these pools."""
    for pool in dict.fromkeys(pools):
        found = catalog.get(Pool, pool)
        if found is not None and found.spec.chooser != "Trainmaster":
            sentence = (
                f"in the pool {shown(pool)} {found.spec.chooser} chooses the nodes, and keeps to no leaf or spine; "
                "give topology.mode soft, or another pool"
            )
            yield Violation("/spec/topology", "topology-unavailable", sentence)
