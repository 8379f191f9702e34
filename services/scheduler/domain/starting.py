"""From a placed job to what an engine needs to start its gang: replicas with command and environment, mounts, files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, Literal

from services.scheduler.domain.choosing import Among
from services.scheduler.domain.terms import Terms
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import (
    Code,
    CodeDirectory,
    CodeInline,
    GangMount,
    GangStart,
    PoolTerms,
    ReplicaStart,
)
from shared import catalog
from shared.catalog.fields import FILE_SCHEME, file_path
from shared.environment import GangEnvironment, GangShape, MountPath, RoleShape, rank_order
from shared.events import Placed, ResolvedMount
from shared.jobs import Job
from shared.jobspec.models import TrainingSpec
from shared.jobspec.reserved import DEEPSPEED_HOSTFILE

# Nothing runs without these; a storage that an admin made of one of them cannot be hidden.
_SYSTEM: Final = frozenset(
    {"/", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev", "/proc", "/sys", "/run", "/var"}
)


def gang_start(
    job: Job,
    placement: Placed,
    code: Code | None,
    secrets: Mapping[str, str],
    *,
    data: Mapping[str, Path],
    named_hosts: bool,
    hidden: tuple[Path, ...] = (),
    pull_secret: str | None = None,
    pools: Mapping[str, catalog.Pool] | None = None,
    among: Mapping[str, Among] | None = None,
) -> GangStart:
    """Everything about the job's present attempt; replicas in the order of their ranks.

    `data` has the directory for each mount, by its path, whose source is not on this machine. `pull_secret` is what
    opens the registry of the image, and `pools` are those of the roles by name; `among` says for roles whose nodes
    others choose which these may be. Raises StartRefusedError where pools do not agree about who schedules the gang.
    """
    spec, terms = TrainingSpec.model_validate(job.submitted.spec), Terms.of(job)
    shape = gang_shape(job, spec, terms, named_hosts=named_hosts)
    environment = GangEnvironment(shape)
    chosen = {role.name: (pools or {}).get(role.pool_name) for role in job.submitted.resolved.roles}
    gang_scheduler, queue = _gang_scheduler(chosen)
    pool_terms = {role: _pool_terms(pool, (among or {}).get(role)) for role, pool in chosen.items()}
    return GangStart(
        job=job.id,
        attempt=job.attempt.number,
        owner=job.owner,
        project=job.project,
        cluster=placement.cluster,
        replicas=tuple(_replicas(shape, spec, terms, placement, environment, pool_terms)),
        mounts=tuple(_mount(mount, data) for mount in job.submitted.resolved.mounts),
        code=code,
        files=environment.files,
        secrets=secrets,
        tensorboard_dir=shape.tensorboard_dir,
        checkpoint_dir=shape.checkpoint_dir,
        hostfile_at=_second_hostfile(spec),
        hidden=hidden,
        termination_grace_s=spec.termination_grace_s,
        job_name=job.name,
        image=job.submitted.resolved.image.address if job.submitted.resolved.image else "",
        gang_scheduler=gang_scheduler,
        queue=queue,
        image_pull_secret=pull_secret,
    )


def places_of_users(view: catalog.Catalog) -> tuple[Path, ...]:
    """Directories of this machine that storages, datasets, models and code sets name; no system directory is one."""
    uris = [storage.spec.uri for storage in view.all(catalog.Storage)]
    uris += [dataset.spec.uri for dataset in view.all(catalog.Dataset)]
    uris += [model.spec.uri for model in view.all(catalog.Model)]
    uris += [code.spec.directory for code in view.all(catalog.CodeSet) if code.spec.directory]
    paths = {file_path(uri) for uri in uris if uri.startswith("file://")}
    return tuple(Path(path) for path in sorted(paths) if path not in _SYSTEM)


def gang_shape(job: Job, spec: TrainingSpec, terms: Terms, *, named_hosts: bool) -> GangShape:
    """What the environment of the gang depends on."""
    gpus = {role.name: role.request.gpus for role in terms.roles}
    return GangShape(
        job=job.id,
        name=job.name,
        attempt=job.attempt.number,
        roles=tuple(RoleShape(role.name, role.replicas, gpus[role.name]) for role in spec.roles),
        mounts=tuple(MountPath(mount.source, mount.mount_path) for mount in spec.mounts),
        tensorboard_dir=spec.tensorboard.log_dir if spec.tensorboard else None,
        checkpoint_dir=spec.checkpoint.dir if spec.checkpoint else None,
        user=spec.env,
        named_hosts=named_hosts,
    )


def stored_code(job: Job) -> Code | None:
    """Code that needs not be fetched: files in the spec, or a directory; None for all other code, and for none."""
    code, spec = job.submitted.resolved.code, job.submitted.spec
    if code is None or code.kind in ("upload", "git"):
        return None
    if code.kind == "directory":
        return CodeDirectory(Path(file_path(code.uri or "")), Path(file_path(code.root)) if code.root else None)
    choice = TrainingSpec.model_validate(spec).code
    return CodeInline(choice.inline or {} if choice else {})


def _second_hostfile(spec: TrainingSpec) -> str | None:
    """Where DeepSpeed's launcher looks; not where one replica is all, as it would then go by ssh instead of at once."""
    several = sum(role.replicas for role in spec.roles) > 1
    return DEEPSPEED_HOSTFILE if spec.framework == "deepspeed" and several else None


def _replicas(
    shape: GangShape,
    spec: TrainingSpec,
    terms: Terms,
    placement: Placed,
    environment: GangEnvironment,
    pools: Mapping[str, PoolTerms],
) -> Iterator[ReplicaStart]:
    commands = {role.name: role.command for role in spec.roles}
    requests = {role.name: role.request for role in terms.roles}
    placed = {role.role: role for role in placement.roles}
    for role in rank_order(shape.roles):
        for index in range(role.replicas):
            yield ReplicaStart(
                role=role.name,
                index=index,
                node=placed[role.name].node(index),
                command=commands[role.name],
                env=environment.variables(role.name, index),
                devices=placed[role.name].devices_of(index),
                memory_bytes=requests[role.name].memory_bytes,
                cpu_m=requests[role.name].cpu_m,
                gpus=requests[role.name].gpus,
                gpu_model=requests[role.name].gpu_model,
                pool=pools[role.name],
            )


def _pool_terms(pool: catalog.Pool | None, among: Among | None) -> PoolTerms:
    if pool is None:
        return PoolTerms()
    names = (among.named if among else ()) or pool.spec.nodes.names
    barred = among.barred if among else ()
    return PoolTerms(pool.spec.binding, names, pool.spec.nodes.labels, pool.spec.run_as_user, barred)


def _gang_scheduler(pools: Mapping[str, catalog.Pool | None]) -> tuple[Literal["trainmaster", "volcano"], str]:
    """Who schedules the gang as a whole, and in which queue: one for all of its roles."""
    wanted = {(pool.spec.gang_scheduler, pool.spec.queue) for pool in pools.values() if pool is not None}
    if len(wanted) > 1:
        names = ", ".join(sorted({pool.name for pool in pools.values() if pool is not None}))
        raise StartRefusedError(f"the pools {names} have different gang schedulers or queues; a gang needs one for all")
    return wanted.pop() if wanted else ("trainmaster", "")


def _mount(mount: ResolvedMount, data: Mapping[str, Path]) -> GangMount:
    uri, sub_path = _volume(mount)
    at = partial(GangMount, path=mount.mount_path, read_only=mount.read_only, uri=uri, sub_path=sub_path)
    if mount.mount_path in data:
        return at(data[mount.mount_path], made=True)
    if not mount.uri.startswith(FILE_SCHEME):
        return at(None)
    return at(Path(file_path(mount.uri)), root=Path(file_path(mount.root)) if mount.root else None)


def _volume(mount: ResolvedMount) -> tuple[str, str]:
    """The storage that the mount is a part of, and which part; a mount that is no part of one is whole."""
    root = mount.root or ""
    inside = mount.uri.startswith(root.rstrip("/") + "/") if root else False
    return (root, mount.uri[len(root.rstrip("/")) :].strip("/")) if inside else (mount.uri, "")
