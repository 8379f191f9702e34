"""What the scheduler asks of the world that runs replicas: the `Engine` port and the records that cross it.

An engine never decides. It offers nodes, starts gangs, tells what became of each replica, and stops gangs. Every call
may be repeated, also by another process after a crash at any point: names are deterministic (`<job>-<attempt>` for a
gang, `<gang>-<role>-<index>` for a replica), a repeated `start` completes what an interrupted one began, and no replica
is ever run twice. Reports come at least once, with ids that are the same each time.

The order of life of a gang is `start`, reports, `stop` where somebody wants it, `forget` once every exit is on record.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from services.scheduler.domain.nodes import Device, NodeState
from shared.errors import TrainmasterError
from shared.events import ReplicaExit
from shared.ids import GangId, ReplicaId, gang_id, host_name, replica_id
from shared.jobs import Job


class StartRefusedError(TrainmasterError):
    """This gang cannot be started here, now or later; `stop` then confirms the end of each of its replicas."""

    code = "start-refused"


class PlaceTakenError(StartRefusedError):
    """Others have taken what this gang needs where it was placed; elsewhere it may be started."""


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """A machine, or a share of one, on which the engine can run replicas; `facts` are for people and rules.

    What others than this platform hold of it (`others_…`) is not in the amounts that are offered. `because` says why it
    is in another state than Ready, if it is.
    """

    id: str
    name: str
    cpu_m: int
    memory_bytes: int
    devices: tuple[Device, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    others_cpu_m: int = 0
    others_memory_bytes: int = 0
    others_devices: tuple[Device, ...] = ()
    state: NodeState = NodeState.READY
    because: str = ""


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything that the engine can run replicas on; `no_mounts_because` is empty where jobs may have mounts.

    `schemes` are those of URIs that can be mounted, and `file_prefixes` directories that `file://` ones must lie in;
    none: the engine does not say.
    """

    nodes: tuple[NodeOffer, ...]
    no_mounts_because: str = ""
    schemes: tuple[str, ...] = ()
    file_prefixes: tuple[str, ...] = ()
    engine: Literal["local", "kubernetes"] = "local"


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

    Where the pool says as which user commands run there, that is `run_as_user`.
    """

    binding: Literal["scheduler", "kubernetes"] = "scheduler"
    node_names: tuple[str, ...] = ()
    node_labels: Mapping[str, str] = field(default_factory=dict)
    run_as_user: int | None = None


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
    `/etc/trainmaster`, `tensorboard_dir` is a path in the replica, and `hostfile_at` one at which a launcher looks for
    the file `hostfile`, where the engine can lay something there. `secrets` are variables of every replica, too, which
    the engine puts nowhere but into their environments. `image_pull_secret` is what opens the registry of `image`, as
    the text of a `.dockerconfigjson`. `queue` is the one of the gang scheduler that is asked for.
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


@dataclass(frozen=True, slots=True)
class ReplicaRef:
    """One replica of one attempt."""

    job: str
    attempt: int
    role: str
    index: int
    node: str

    @property
    def gang(self) -> GangId:
        """Name of the gang that it belongs to."""
        return gang_id(self.job, self.attempt)

    @property
    def id(self) -> ReplicaId:
        """Name of the replica."""
        return replica_id(self.job, self.attempt, self.role, self.index)


@dataclass(frozen=True, slots=True)
class ReplicaWaiting:
    """The replica does not run yet, for this reason."""

    replica: ReplicaRef
    at: datetime
    reason: str

    @property
    def id(self) -> str:
        """The same for every report of this fact."""
        return f"{self.replica.id}/waiting/{self.reason}"


@dataclass(frozen=True, slots=True)
class ReplicaStarted:
    """The replica's command runs."""

    replica: ReplicaRef
    at: datetime

    @property
    def id(self) -> str:
        """The same for every report of this fact."""
        return f"{self.replica.id}/started"


@dataclass(frozen=True, slots=True)
class ReplicaExited:
    """The replica has ended, and every process of it."""

    replica: ReplicaRef
    at: datetime
    exit: ReplicaExit

    @property
    def id(self) -> str:
        """The same for every report of this fact."""
        return f"{self.replica.id}/exited"


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """All that happened before `observe` was called is told; the engine knows these gangs and no others.

    Where several clusters are observed together each of them catches up for itself.
    """

    gangs: frozenset[GangId]
    cluster: str = ""


class ExecRefusedError(TrainmasterError):
    """No command can be run in this sandbox now."""

    code = "conflict"


ExecStream = Literal["stdout", "stderr"]


@dataclass(frozen=True, slots=True)
class ExecOutput:
    """Something that a command in a sandbox wrote."""

    stream: ExecStream
    data: bytes


@dataclass(frozen=True, slots=True)
class ExecEnded:
    """The command has ended, with the code that a shell would give; `message` where it was not its own doing."""

    code: int
    message: str = ""


class Execution(Protocol):
    """A command for a sandbox."""

    def pieces(self) -> AsyncGenerator[ExecOutput | ExecEnded, None]:
        """Start it; what it writes, and at last its end. It is ended where this is left early. To be read once."""
        ...


@dataclass(frozen=True, slots=True)
class KeptSandbox:
    """What an ended attempt left, and until when it is held; `path` is on the machine `machine`."""

    attempt: int
    machine: str
    path: str
    until: datetime


Observation = ReplicaWaiting | ReplicaStarted | ReplicaExited | CaughtUp


class Engine(Protocol):
    """What runs replicas."""

    @property
    def lays_data(self) -> bool:
        """Whether it uses data and code that were brought to this machine; else it is told where they are."""
        ...

    async def inventory(self) -> Inventory:
        """Nodes with their capacity, whatever runs on them now."""
        ...

    async def start(self, gang: GangStart) -> None:
        """Start every replica that never ran; none where a stop was asked for. Raises StartRefusedError."""
        ...

    def observe(self) -> AsyncIterator[Observation]:
        """What is known of every gang that is not forgotten, then `CaughtUp`, then what happens, without end."""
        ...

    async def stop(self, gang_id: GangId, grace_s: float) -> bool:
        """Have every replica end within the grace, and report those that never started as exited.

        False where the engine does not know the gang: nothing of it runs, and nothing will be reported.
        """
        ...

    async def forget(self, gang_id: GangId, keep_until: datetime | None = None) -> None:
        """Every exit of the gang is on record: report it no more, and remove it once its logs are shipped.

        What it left is held until `keep_until`, where that is given; nothing of it runs then.
        """
        ...

    async def execute(
        self, gang_id: GangId, role: str, index: int, command: tuple[str, ...], limit_s: float
    ) -> Execution:
        """One more command for the sandbox of a running replica, with its rights; raises ExecRefusedError."""
        ...

    def kept(self, job: str) -> tuple[KeptSandbox, ...]:
        """What is held of attempts of the job that have ended."""
        ...

    def holdups(self, gang_id: GangId) -> Mapping[str, str]:
        """Why replicas (`<role>-<index>`) of the gang do not run yet, for who does not follow `observe`."""
        ...


class Starter(Protocol):
    """Prepares gangs and has the engine start them."""

    async def start(self, job: Job) -> None:
        """Start the job's present attempt; raises StartRefusedError."""
        ...

    async def save(self, gang: str) -> None:
        """Bring away what the gang wrote."""
        ...

    def is_unsaved(self, gang: str) -> bool:
        """Whether the gang may have written something that has to be brought away."""
        ...

    def save_problem(self, gang: str) -> str:
        """What of it is lost nevertheless; empty where nothing is."""
        ...

    def abandon(self, gang: str) -> None:
        """Do not start the gang, where it is still being prepared."""
        ...

    def abandon_all(self) -> None:
        """Start nothing that is still being prepared, and save nothing more."""
        ...
