"""Which cluster a job is for: the one that it names, or the first one; all of its roles run there."""

from __future__ import annotations

from shared.catalog import Catalog, Cluster
from shared.documents.fields import shown
from shared.errors import Violation
from shared.jobspec import FIRST_CLUSTER


def cluster_of(named: str | None, catalog: Catalog) -> Cluster | Violation | None:
    """The cluster; None where no scheduler has told yet which clusters there are."""
    if named is None:
        first = (cluster for cluster in catalog.all(Cluster) if cluster.spec.first)
        return next(first, None) or catalog.get(Cluster, FIRST_CLUSTER)
    found = catalog.get(Cluster, named)
    names = ", ".join(shown(cluster.name) for cluster in catalog.all(Cluster))
    if found is None and (names or named != FIRST_CLUSTER):
        sentence = f"there is no cluster {shown(named)}; there is: {names or 'none yet'}"
        return Violation("/spec/cluster", "unknown-cluster", sentence)
    return found
