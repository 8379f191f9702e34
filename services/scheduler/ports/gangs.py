"""What an engine is asked to start: one attempt of a job as a gang of replicas, with its mounts and code.

Names are deterministic, `<job>-<attempt>` for a gang and `<gang>-<role>-<index>` for a replica, so that who asks twice
means the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from shared.ids import GangId, ReplicaId, gang_id, host_name, replica_id


@dataclass(frozen=True, slots=True)
class GangMount:
    """A directory at a path in every replica.

    An engine that uses what was laid on this machine reads `source`, which is None where nothing was: `root` is the
    directory that an admin allowed, and links on the way to `source` must not lead out of it. What was `made` for this
    gang by the platform may lie within its own state, which is closed to mounts otherwise.

    Any other engine reads `uri`, the volume (the whole storage, where the mount is a part of one), and `sub_path`, what
    of it is wanted.
    """

    source: Path | None
    path: str
    read_only: bool = False
    root: Path | None = None
    made: bool = False
    uri: str = ""
    sub_path: str = ""


@dataclass(frozen=True, slots=True)
class CodeArchive:
    """Code as a gzipped tar file on the host."""

    path: Path


@dataclass(frozen=True, slots=True)
class CodeDirectory:
    """Code as a directory of the host; the gang gets a copy. No link may lead `path` out of `root`, as for mounts."""

    path: Path
    root: Path | None = None


@dataclass(frozen=True, slots=True)
class CodeInline:
    """Code as texts by relative path."""

    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CodePacked:
    """Code as the content of a gzipped tar file that is small enough to be handed on whole."""

    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class CodeUpload:
    """Code as a gzipped tar file of this digest that is kept for the gang; whoever shows the ticket is given it."""

    digest: str
    ticket: str = field(default="", repr=False)


LaidCode = CodeArchive | CodeDirectory | CodeInline


Code = LaidCode | CodePacked | CodeUpload


@dataclass(frozen=True, slots=True)
class PoolTerms:
    """Who chooses the node of a replica: this scheduler, or Kubernetes among the nodes that a pool is.

    Of those it must leave out the ones that are `barred`, by name. Where the pool says as which user commands run
    there, that is `run_as_user`.
    """

    binding: Literal["scheduler", "kubernetes"] = "scheduler"
    node_names: tuple[str, ...] = ()
    node_labels: Mapping[str, str] = field(default_factory=dict)
    run_as_user: int | None = None
    barred: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplicaStart:
    """One replica: where it runs, what it gets and what it does.

    `env` is its whole environment but for what the engine must add.
    """

    role: str
    index: int
    node: str
    command: str
    env: Mapping[str, str] = field(repr=False)
    devices: tuple[str, ...] = ()
    memory_bytes: int | None = None
    cpu_m: int = 0
    gpus: int = 0
    gpu_model: str = ""
    pool: PoolTerms = field(default_factory=PoolTerms)


@dataclass(frozen=True, slots=True)
class GangStart:
    """All that is needed to start one attempt of a job.

    `replicas` are in the order of their ranks, so that the first is rank 0. `files` are texts by path relative to
    `/etc/trainmaster`, `tensorboard_dir` and `checkpoint_dir` are paths in the replica, and `hostfile_at` one at which
    a launcher looks for the file `hostfile`, where the engine can lay something there. `secrets` are variables of every
    replica, too, which the engine puts nowhere but into their environments. `image_pull_secret` is what opens the
    registry of `image`, as the text of a `.dockerconfigjson`. `queue` is the one of the gang scheduler that is asked
    for.
    """

    job: str
    attempt: int
    owner: str
    project: str
    cluster: str
    replicas: tuple[ReplicaStart, ...]
    mounts: tuple[GangMount, ...] = ()
    code: Code | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    tensorboard_dir: str | None = None
    checkpoint_dir: str | None = None
    hostfile_at: str | None = None
    hidden: tuple[Path, ...] = ()
    termination_grace_s: float = 30.0
    job_name: str = ""
    image: str = ""
    image_pull_secret: str | None = field(default=None, repr=False)
    gang_scheduler: Literal["trainmaster", "volcano"] = "trainmaster"
    queue: str = ""

    @property
    def id(self) -> GangId:
        """Name of the gang."""
        return gang_id(self.job, self.attempt)

    def replica_id(self, replica: ReplicaStart) -> ReplicaId:
        """Name of one of the replicas, and the short form of its host name."""
        return replica_id(self.job, self.attempt, replica.role, replica.index)

    def host_name(self, replica: ReplicaStart) -> str:
        """Name under which the others reach one of the replicas."""
        return host_name(self.job, self.attempt, replica.role, replica.index)
