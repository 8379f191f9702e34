"""What can never be started: gangs of a pool that leaves them to a scheduler of gangs that its cluster does not have.

Such a pool is refused when it is applied; Volcano may have gone since, or the right to make its objects.
"""

from __future__ import annotations

from collections.abc import Iterator

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
