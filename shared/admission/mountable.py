"""What can never be mounted: data of a kind that the cluster has no volumes for, and parts that cannot be confined.

The scheduler says in the cluster's document which schemes its engine mounts, and which directories of its nodes; of a
cluster that says nothing, nothing is judged here. A code set that is a directory is taken from the nodes, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from shared.admission.locations import within
from shared.catalog import Cluster
from shared.catalog.fields import FILE_SCHEME, file_path
from shared.catalog.volumes import PVC_SCHEME, claim_and_path, scheme_of
from shared.documents.fields import shown
from shared.errors import Violation
from shared.events import ResolvedCode, ResolvedMount


def mount_violations(index: int, mount: ResolvedMount, cluster: Cluster | None) -> Iterator[Violation]:
    """What is wrong with the place that a mount came to."""
    yield from _unavailable(mount.root or mount.uri, f"/spec/mounts/{index}/source", mount.source, cluster)
    if _could_lead_out(mount):
        sentence = (
            f"{shown(mount.root or '')} is itself a part of a claim, and a link could lead out of a part of that; "
            "mount it without subPath, or ask an admin for a storage that is a whole claim"
        )
        yield Violation(f"/spec/mounts/{index}/subPath", "part-not-confined", sentence)


def code_violations(code: ResolvedCode, cluster: Cluster | None) -> Iterator[Violation]:
    """What is wrong with the place of a directory of code."""
    if code.kind == "directory" and code.uri is not None:
        yield from _unavailable(code.root or code.uri, "/spec/code/source", "the code", cluster)


def _unavailable(uri: str, pointer: str, name: str, cluster: Cluster | None) -> Iterator[Violation]:
    schemes, prefixes = (cluster.spec.schemes, cluster.spec.file_prefixes) if cluster else ((), ())
    scheme = scheme_of(uri)
    if schemes and scheme not in schemes:
        offered = ", ".join(f"{each}://" for each in schemes)
        sentence = f"{shown(name)} is at {scheme}://, which this cluster cannot mount; it mounts {offered}"
        yield Violation(pointer, "scheme-unavailable", sentence)
    elif uri.startswith(FILE_SCHEME) and prefixes and not any(within(file_path(uri), each) for each in prefixes):
        sentence = f"{shown(name)} is in no directory that nodes of this cluster show to jobs: {', '.join(prefixes)}"
        yield Violation(pointer, "directory-unavailable", sentence)


def _could_lead_out(mount: ResolvedMount) -> bool:
    root = mount.root or mount.uri
    return root.startswith(PVC_SCHEME) and bool(claim_and_path(root)[1]) and root != mount.uri
