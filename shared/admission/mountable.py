"""What can never be mounted: data of a kind that the cluster has no volumes for, and parts that cannot be confined.

The scheduler says in the cluster's document which schemes its engine mounts; of a cluster that says nothing, nothing is
judged here.
"""

from __future__ import annotations

from collections.abc import Iterator

from shared.catalog import Cluster
from shared.catalog.volumes import PVC_SCHEME, claim_and_path, scheme_of
from shared.documents.fields import shown
from shared.errors import Violation
from shared.events import ResolvedMount


def mount_violations(index: int, mount: ResolvedMount, cluster: Cluster | None) -> Iterator[Violation]:
    """What is wrong with the place that a mount came to."""
    schemes = cluster.spec.schemes if cluster else ()
    scheme = scheme_of(mount.uri)
    if schemes and scheme not in schemes:
        offered = ", ".join(f"{each}://" for each in schemes)
        sentence = f"{shown(mount.source)} is at {scheme}://, which this cluster cannot mount; it mounts {offered}"
        yield Violation(f"/spec/mounts/{index}/source", "scheme-unavailable", sentence)
    elif _could_lead_out(mount):
        sentence = (
            f"{shown(mount.root or '')} is itself a part of a claim, and a link could lead out of a part of that; "
            "mount it without subPath, or ask an admin for a storage that is a whole claim"
        )
        yield Violation(f"/spec/mounts/{index}/subPath", "part-not-confined", sentence)


def _could_lead_out(mount: ResolvedMount) -> bool:
    root = mount.root or mount.uri
    return root.startswith(PVC_SCHEME) and bool(claim_and_path(root)[1]) and root != mount.uri
