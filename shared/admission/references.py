"""What a job's references mean to the one who submits it, looked up in the catalog: image, code, mounts, pools.

Each function gives the resolved thing, or a violation with its place, or the foreign pool that the role names. What an
asker may not use is not told apart from what does not exist; only a pool is, as users are told which one to ask for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from shared.admission.locations import Locations
from shared.admission.packing import pack
from shared.catalog import (
    Asker,
    Catalog,
    CodeSet,
    Dataset,
    Image,
    InstanceType,
    Model,
    Pool,
    Project,
    Secret,
    Storage,
    may_change,
    may_use,
    may_use_pool,
    may_use_secret,
)
from shared.catalog.access import asker_named
from shared.catalog.assets import GitRepository
from shared.catalog.fields import FILE_SCHEME, place_of, uri_of
from shared.documents.fields import shown
from shared.errors import Violation
from shared.events import ResolvedCode, ResolvedImage, ResolvedMount, ResolvedRole
from shared.jobspec.models import CodeChoice, ImageChoice, Mount, Role

_SHOWN_MAX: Final = 10
_KIND_OF_MOUNT: Final[Mapping[str, type[Storage | Dataset | Model]]] = {
    "storage": Storage,
    "dataset": Dataset,
    "model": Model,
}


@dataclass(frozen=True, slots=True)
class ForeignPool:
    """A dedicated pool that the asker is no member of."""

    name: str


@dataclass(frozen=True, slots=True)
class World:
    """What there is, and who asks; `uploads` are the digests in question that are really kept."""

    catalog: Catalog
    asker: Asker
    locations: Locations
    uploads: frozenset[str] = frozenset()


# --- image and code --------------------------------------------------------------------------------------------------


def image_of(choice: ImageChoice, world: World, project: Project | None) -> ResolvedImage | Violation:
    """The address of the chosen image, and what opens its registry: the image's own secret, else the project's."""
    found = _addressed(choice, world)
    if isinstance(found, Violation) or found.pull_secret is not None or project is None:
        return found
    secret = project.spec.pull_secret
    return found.model_copy(update={"pull_secret": secret, "owner": project.owner}) if secret else found


def _addressed(choice: ImageChoice, world: World) -> ResolvedImage | Violation:
    if choice.source == "address":
        return ResolvedImage(source="address", address=choice.ref)
    usable = {image.name: image for image in _images(choice.source, world)}
    image = usable.get(choice.ref)
    if image is None:
        return _unknown("/spec/image/ref", f"{choice.source} image", choice.ref, usable)
    secret = image.spec.pull_secret
    return ResolvedImage(
        source=choice.source, address=image.spec.address, pull_secret=secret, owner=image.owner if secret else None
    )


def _images(source: str, world: World) -> Iterator[Image]:
    """Images of one source: the platform's, the asker's own, or those that others share with the asker."""
    for image in world.catalog.all(Image):
        own = image.owner == world.asker.name
        if source == "platform" and image.spec.type == "platform":
            yield image
        if image.spec.type != "custom" or not may_use(image.owner, image.spec.access, world.asker):
            continue
        if source == ("custom" if own else "shared"):
            yield image


def code_of(choice: CodeChoice, world: World) -> ResolvedCode | Violation:
    """What is laid at /code."""
    if choice.inline is not None:
        return ResolvedCode(kind="inline")
    if choice.upload is not None:
        if choice.upload not in world.uploads:
            return unknown_upload("/spec/code/upload")
        return ResolvedCode(kind="upload", digest=choice.upload)
    name = choice.source or ""
    usable = {found.name: found for found in world.catalog.all(CodeSet) if _usable(found, world.asker)}
    if name not in usable:
        return _unknown("/spec/code/source", "code set", name, usable)
    if choice.revision is not None and usable[name].spec.git is None:
        sentence = f"the code set {shown(name)} has no revisions, as it is no git repository; leave this out"
        return Violation("/spec/code/revision", "no-revisions", sentence)
    return _code_of_set(usable[name], choice.revision, world)


def unknown_upload(pointer: str) -> Violation:
    """The digest names no upload."""
    sentence = "nothing was uploaded with this digest; upload the folder again with `trainmaster apply`"
    return Violation(pointer, "unknown-upload", sentence)


def _code_of_set(code: CodeSet, revision: str | None, world: World) -> ResolvedCode | Violation:
    directory = code.spec.directory
    if directory is not None:
        withdrawn = _withdrawn(code, directory, "/spec/code/source", world)
        return withdrawn or ResolvedCode(kind="directory", uri=directory, root=_root(code, directory, world))
    if code.spec.git is not None:
        return _code_of_repository(code, code.spec.git, revision, world)
    if code.spec.inline is not None:
        return ResolvedCode(kind="upload", digest=pack(code.spec.inline).digest)
    return ResolvedCode(kind="upload", digest=code.spec.upload)


def _code_of_repository(
    code: CodeSet, git: GitRepository, revision: str | None, world: World
) -> ResolvedCode | Violation:
    here = git.url.startswith(FILE_SCHEME)
    withdrawn = _withdrawn(code, git.url, "/spec/code/source", world) if here else None
    return withdrawn or ResolvedCode(
        kind="git",
        uri=git.url,
        root=_root(code, git.url, world) if here else None,
        revision=revision,
        username=git.username,
        secret=git.secret,
        owner=code.owner if git.secret else None,
    )


# --- mounts ----------------------------------------------------------------------------------------------------------


def mount_of(index: int, mount: Mount, world: World) -> ResolvedMount | Violation:
    """Where the mounted data is."""
    found_assets = world.catalog.all(_KIND_OF_MOUNT[mount.type])
    usable = {found.name: found for found in found_assets if _usable(found, world.asker)}
    source, pointer = usable.get(mount.source), f"/spec/mounts/{index}/source"
    if source is None:
        return _unknown(pointer, mount.type, mount.source, usable)
    if not (mount.read_only or isinstance(source, Storage) or may_change(source.owner, world.asker)):
        sentence = f"the {mount.type} {shown(mount.source)} belongs to {source.owner}; set readOnly: true to use it"
        return Violation(f"/spec/mounts/{index}/readOnly", "mount-must-be-read-only", sentence)
    withdrawn = None if isinstance(source, Storage) else _withdrawn(source, source.spec.uri, pointer, world)
    return withdrawn or ResolvedMount(
        mount_path=mount.mount_path,
        type=mount.type,
        source=mount.source,
        uri=_below(source.spec.uri, mount.sub_path),
        root=_root(source, source.spec.uri, world),
        read_only=mount.read_only,
    )


def _withdrawn(asset: Dataset | Model | CodeSet, uri: str, pointer: str, world: World) -> Violation | None:
    """The refusal of an asset whose owner may not point to its directory any more."""
    owner = asker_named(asset.owner or "", world.catalog)
    if world.locations.data_violation(place_of(uri), pointer, owner, world.catalog) is None:
        return None
    sentence = (
        f"the owner of {asset.SINGULAR} {shown(asset.name)} may not use its directory any more; ask {asset.owner}"
    )
    return Violation(pointer, "location-not-allowed", sentence)


def _root(asset: Storage | Dataset | Model | CodeSet, uri: str, world: World) -> str:
    """What no link may lead out of: a storage's own root, or that of the storage in which the directory lies."""
    if isinstance(asset, Storage):
        return uri
    owner = asker_named(asset.owner or "", world.catalog)
    return uri_of(world.locations.root_of(place_of(uri), owner, world.catalog))


def _below(uri: str, sub_path: str | None) -> str:
    return uri_of(f"{place_of(uri).rstrip('/')}/{sub_path}") if sub_path else uri


# --- secrets ---------------------------------------------------------------------------------------------------------


def secret_violation(name: str, pointer: str, catalog: Catalog, asker: Asker) -> Violation | None:
    """What is wrong with a reference to a secret."""
    usable = [secret.name for secret in catalog.all(Secret) if may_use_secret(secret, asker)]
    return None if name in usable else _unknown(pointer, "secret", name, usable)


# --- roles -----------------------------------------------------------------------------------------------------------


def role_of(index: int, role: Role, world: World, cluster: str | None) -> ResolvedRole | Violation | ForeignPool:
    """The pool of the role, what its instance type gives, and the price that will be billed.

    The pool must be one of the job's cluster, where that is known.
    """
    pool = _pool_of(index, role, world, cluster)
    if not isinstance(pool, Pool):
        return pool
    offered = {kind.name: kind for kind in world.catalog.all(InstanceType) if pool.name in kind.spec.pools}
    kind = offered.get(role.instance_type)
    if kind is None:
        return _unknown(
            f"/spec/roles/{index}/instanceType", f"instance type of the pool {pool.name}", role.instance_type, offered
        )
    gpu = kind.spec.gpu
    return ResolvedRole(
        name=role.name,
        pool=pool.id,
        pool_name=pool.name,
        instance_type=kind.name,
        cpu_millis=kind.spec.cpu,
        memory_bytes=kind.spec.memory,
        gpu_model=gpu.model if gpu else None,
        gpu_count=gpu.count if gpu else 0,
        price_micros_per_hour=kind.spec.price_per_hour if pool.spec.type == "public" else None,
    )


def _pool_of(index: int, role: Role, world: World, cluster: str | None) -> Pool | Violation | ForeignPool:
    pools = list(world.catalog.all(Pool))
    if role.pool.type == "public":
        there = (pool for pool in pools if pool.spec.type == "public" and cluster in (None, pool.spec.cluster))
        named = f"the cluster {shown(cluster)}" if cluster else "the cluster"
        sentence = f"{named} has no public pool; an admin can apply one, or give type: dedicated with a name"
        return next(there, None) or Violation(f"/spec/roles/{index}/pool", "no-public-pool", sentence)
    name = role.pool.name or ""
    dedicated = {pool.name: pool for pool in pools if pool.spec.type == "dedicated"}
    if name not in dedicated:
        usable = [pool.name for pool in dedicated.values() if may_use_pool(pool, world.asker)]
        return _unknown(f"/spec/roles/{index}/pool/name", "dedicated pool", name, usable)
    pool = dedicated[name]
    if not may_use_pool(pool, world.asker):
        return ForeignPool(name)
    return pool if cluster is None or cluster == pool.spec.cluster else _elsewhere(index, pool, cluster)


def _elsewhere(index: int, pool: Pool, cluster: str) -> Violation:
    sentence = (
        f"the pool {shown(pool.name)} is in the cluster {shown(pool.spec.cluster)}, and all roles of this job run in "
        f"{shown(cluster)}; set spec.cluster to {shown(pool.spec.cluster)}, or give a pool of {shown(cluster)}"
    )
    return Violation(f"/spec/roles/{index}/pool/name", "pool-of-another-cluster", sentence)


def _usable(asset: Storage | Dataset | Model | CodeSet, asker: Asker) -> bool:
    return may_use(asset.owner, asset.spec.access, asker)


def _unknown(pointer: str, kind: str, name: str, usable: Iterable[str]) -> Violation:
    """What the asker named is not there for them; the sentence says what is."""
    names = sorted(usable)
    more = f" and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else ""
    there_is = f"there is: {', '.join(map(shown, names[:_SHOWN_MAX]))}{more}" if names else "there is none yet"
    code = "unknown-" + kind.partition(" of ")[0].replace(" ", "-")
    return Violation(pointer, code, f"there is no {kind} {shown(name)} that you may use; {there_is}")
