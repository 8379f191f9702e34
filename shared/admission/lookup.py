"""Everything that a job refers to, looked up at once: what was found, what is wrong, and which directories it needs.

Directories are not looked at here: `places` says which must be there for the job to start, and whoever can look tells
those that are missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from shared.admission.clusters import cluster_of
from shared.admission.gang_schedulers import gang_scheduler_violations, topology_violations
from shared.admission.locations import no_directory
from shared.admission.mountable import code_violations, mount_violations
from shared.admission.references import (
    ForeignPool,
    World,
    code_of,
    image_of,
    mount_of,
    role_of,
    secret_violation,
)
from shared.admission.sizes import size_violations
from shared.admission.wholes import Sized, whole_violations
from shared.catalog import Cluster, Project
from shared.catalog.access import DEFAULT_PROJECT, may_use_project
from shared.catalog.fields import FILE_SCHEME, file_path
from shared.documents.fields import shown
from shared.documents.parsing import pointer
from shared.errors import Violation
from shared.events import ResolvedCode, ResolvedImage, ResolvedMount, ResolvedRole
from shared.jobspec import FIRST_CLUSTER
from shared.jobspec.parts import JobParts

Answer = ResolvedImage | ResolvedCode | ResolvedMount | ResolvedRole | Violation | ForeignPool


@dataclass(frozen=True, slots=True)
class Place:
    """A directory of the replicas' machine that must be there, and the place of the document that needs it."""

    pointer: str
    path: str

    def missing(self) -> Violation:
        """What is told where it is not there."""
        return no_directory(self.path, self.pointer)


@dataclass(frozen=True, slots=True)
class LookedUp:
    """What the references of a job came to, in the order of the document."""

    answers: tuple[Answer, ...]
    places: tuple[Place, ...]
    cluster: str = FIRST_CLUSTER

    @classmethod
    def of(cls, parts: JobParts, world: World) -> Self:
        """Look everything up."""
        cluster = cluster_of(parts.cluster, world.catalog)
        found = tuple(_answers(parts, world, cluster))
        places = (needed for place, answer in found for needed in _place(place, answer))
        name = cluster.name if isinstance(cluster, Cluster) else FIRST_CLUSTER
        return cls(tuple(answer for _, answer in found), tuple(places), name)

    @property
    def paths(self) -> frozenset[str]:
        """The directories that must be there."""
        return frozenset(place.path for place in self.places)

    @property
    def foreign_pools(self) -> tuple[str, ...]:
        """Names of dedicated pools that the asker is no member of."""
        return tuple(sorted({answer.name for answer in self.answers if isinstance(answer, ForeignPool)}))

    def violations(self, missing: Collection[str]) -> tuple[Violation, ...]:
        """All that is wrong, given the paths at which there is nothing."""
        wrong = (answer for answer in self.answers if isinstance(answer, Violation))
        return (*wrong, *(place.missing() for place in self.places if place.path in missing))


def _answers(parts: JobParts, world: World, found: Cluster | Violation | None) -> Iterator[tuple[str, Answer]]:
    """Each reference with the place that names it."""
    cluster = found if isinstance(found, Cluster) else None
    wrong = [found] if isinstance(found, Violation) else []
    yield from (("", violation) for violation in (*_project(parts, world), *wrong, *_mounts(parts, cluster)))
    if parts.image is not None:
        yield "/spec/image", image_of(parts.image, world, world.catalog.get(Project, parts.project or DEFAULT_PROJECT))
    if parts.code is not None:
        code = code_of(parts.code, world)
        yield "/spec/code/source", code
        if isinstance(code, ResolvedCode):
            yield from (("/spec/code/source", violation) for violation in code_violations(code, cluster))
    for index, mount in parts.mounts.items():
        key = "subPath" if mount.sub_path else "source"
        place, mounted = pointer(("spec", "mounts", index, key)), mount_of(index, mount, world)
        yield place, mounted
        if isinstance(mounted, ResolvedMount):
            yield from ((place, violation) for violation in mount_violations(index, mounted, cluster))
    for variable, secret in parts.secrets.items():
        place = pointer(("spec", "secrets", variable))
        violation = secret_violation(secret, place, world.catalog, world.asker)
        if violation is not None:
            yield place, violation
    yield from _roles(parts, world, cluster)


def _roles(parts: JobParts, world: World, cluster: Cluster | None) -> Iterator[tuple[str, Answer]]:
    """What each role means, and what is wrong with it in its cluster."""
    name, taken = cluster.name if cluster else None, {}
    for index, role in parts.roles.items():
        answer = role_of(index, role, world, name)
        yield pointer(("spec", "roles", index)), answer
        if isinstance(answer, ResolvedRole):
            taken[index] = Sized(answer, role.replicas)
    if cluster is not None:
        for index, sized in taken.items():
            wrong = gang_scheduler_violations(index, sized.role.pool_name, cluster, world.catalog)
            yield from (("", violation) for violation in wrong)
        if _hard_level(parts) is not None:
            pools = (sized.role.pool_name for sized in taken.values())
            yield from (("", violation) for violation in topology_violations(pools, world.catalog))
        yield from (("", violation) for violation in _sizes(taken, parts, cluster))


def _sizes(taken: Mapping[int, Sized], parts: JobParts, cluster: Cluster) -> Iterator[Violation]:
    """What is wrong with the sizes of roles: one by one, or else with all of them together."""
    wrong = [each for index, one in taken.items() for each in size_violations(index, one.role, one.replicas, cluster)]
    yield from wrong
    if not wrong and len(taken) == len(parts.roles):
        yield from whole_violations(tuple(taken.values()), _hard_level(parts), cluster)


def _hard_level(parts: JobParts) -> str | None:
    """The level at which all replicas must be in one domain."""
    return parts.topology.level if parts.topology is not None and parts.topology.mode == "hard" else None


def _place(place: str, answer: Answer) -> Iterator[Place]:
    """The directory that an answer needs: of a writable mount, which is made, only the root in which it is made."""
    match answer:
        case ResolvedMount(uri=uri, root=root, read_only=read_only) if uri.startswith(FILE_SCHEME):
            yield Place(place, file_path(uri if read_only or root is None else root))
        case ResolvedCode(kind="directory" | "git", uri=str() as uri) if uri.startswith(FILE_SCHEME):
            yield Place(place, file_path(uri))


def _project(parts: JobParts, world: World) -> Iterator[Violation]:
    name = parts.project
    if name in (None, DEFAULT_PROJECT):
        return
    project = world.catalog.get(Project, name)
    if project is None or not may_use_project(project, world.asker):
        sentence = f"there is no project {shown(name)} that you are in; leave it out, or apply it as kind: Project"
        yield Violation("/metadata/project", "unknown-project", sentence)


def _mounts(parts: JobParts, cluster: Cluster | None) -> Iterator[Violation]:
    if parts.mounts and cluster is not None and not cluster.spec.mounts:
        sentence = f"mounts do not work here: {cluster.spec.mounts_hint or 'the engine cannot make them'}"
        yield Violation("/spec/mounts", "mounts-unavailable", sentence)
