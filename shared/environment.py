"""Environment and files of a replica: every dialect that training code reads, worked out once for the whole gang.

Three dialects are always given: Volcano's (`VC_WORKER_HOSTS`, `VC_TASK_INDEX`), PyTorch's (`MASTER_ADDR`, `RANK` and
the `PET_*` defaults of torchrun) and Trainmaster's own (`TM_*`). `docs/environment.md` lists them for users.

Most of it is the same in every replica, so `GangEnvironment` works out one mapping a role when it is made and a replica
is a copy of it plus four entries: ten thousand replicas cost milliseconds, not a host list each. Ranks count over the
gang with the role `master` first, or the first role where there is no such role; names and host lists keep the order in
which the roles were written. A host list over 100 KiB would come near the kernel's limit of 128 KiB for one string of
an environment, so that one stands in its file alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from shared.ids import host_name
from shared.jobspec.reserved import MASTER_ROLE, role_token
from shared.replica import python_files
from shared.units import KIB

ETC_DIR: Final = "/etc/trainmaster"
LOOPBACK: Final = "127.0.0.1"
HOSTS_VARIABLE_MAX_BYTES: Final = 100 * KIB
DEFAULT_MASTER_PORT: Final = 23456

_UNFIT_FOR_NAME: Final = re.compile(r"[^A-Z0-9]", re.ASCII)


@dataclass(frozen=True, slots=True)
class RoleShape:
    """What the environment needs to know of one role; `gpus` is what one replica's instance has."""

    name: str
    replicas: int
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class MountPath:
    """Where one mount of the job stands in the replica, and the name of its source."""

    source: str
    path: str


@dataclass(frozen=True, slots=True)
class GangShape:
    """One attempt of one job, as far as its environment is concerned; roles in the order in which they were written.

    `named_hosts` is false where the engine cannot make host names resolve: every address is then the loopback one.
    `files_dir` is where the replica finds the gang's files.
    """

    job: str
    name: str
    attempt: int
    roles: tuple[RoleShape, ...]
    mounts: tuple[MountPath, ...] = ()
    tensorboard_dir: str | None = None
    checkpoint_dir: str | None = None
    user: Mapping[str, str] = field(default_factory=dict)
    master_port: int = DEFAULT_MASTER_PORT
    named_hosts: bool = True
    files_dir: str = ETC_DIR


def num_variable(role: str) -> str:
    """The one reserved variable that a job may set: the number of replicas of a role."""
    return f"VC_{role_token(role)}_NUM"


def rank_order(roles: Iterable[RoleShape]) -> tuple[RoleShape, ...]:
    """Roles in the order in which ranks are counted: `master` first, the others as written."""
    return tuple(sorted(roles, key=lambda role: role.name != MASTER_ROLE))


def data_variables(mounts: Iterable[MountPath]) -> dict[str, str]:
    """`TM_DATA_<SOURCE>` for every mount; a second mount that would take the same name gets `_2`, and so on.

    What is no ASCII letter or digit in a source's name becomes `_`; a name without any is called `MOUNT`.
    """
    variables: dict[str, str] = {}
    for mount in mounts:
        variables[_free_name(f"TM_DATA_{_source_token(mount.source)}", variables)] = mount.path
    return variables


def _source_token(source: str) -> str:
    token = _UNFIT_FOR_NAME.sub("_", source.upper())
    return token if token.strip("_") else "MOUNT"


def _free_name(name: str, taken: Mapping[str, str]) -> str:
    candidate, count = name, 1
    while candidate in taken:
        count += 1
        candidate = f"{name}_{count}"
    return candidate


class GangEnvironment:
    """Variables and files of every replica of one gang."""

    def __init__(self, shape: GangShape) -> None:
        self._shape = shape
        self._hosts = {role.name: tuple(self._addresses(role)) for role in shape.roles}
        self._first_rank = self._count_ranks()
        common = self._common()
        self._of_role = {role.name: common | self._role_variables(role) for role in shape.roles}

    @property
    def files(self) -> dict[str, str]:
        """Texts by path relative to the directory of the gang's files; the same for every replica."""
        hosts = {f"hosts/{role}": "".join(f"{host}\n" for host in names) for role, names in self._hosts.items()}
        return {**hosts, "hostfile": "".join(self._hostfile_lines()), **python_files()}

    def variables(self, role: str, index: int) -> dict[str, str]:
        """All variables of one replica, the job's own included."""
        rank = str(self.rank(role, index))
        own = {
            "VC_TASK_INDEX": str(index),
            "RANK": rank,
            "PET_NODE_RANK": rank,
            "TM_INDEX": str(index),
        }
        return {**self._of_role[role], **own}

    def rank(self, role: str, index: int) -> int:
        """Place of the replica in the gang, from 0."""
        return self._first_rank[role] + index

    def _addresses(self, role: RoleShape) -> Iterator[str]:
        shape = self._shape
        for index in range(role.replicas):
            yield host_name(shape.job, shape.attempt, role.name, index) if shape.named_hosts else LOOPBACK

    def _count_ranks(self) -> dict[str, int]:
        first: dict[str, int] = {}
        total = 0
        for role in rank_order(self._shape.roles):
            first[role.name] = total
            total += role.replicas
        return first

    def _common(self) -> dict[str, str]:
        shape = self._shape
        variables = {"PYTHONUNBUFFERED": "1", **shape.user, **data_variables(shape.mounts)}
        for role in shape.roles:
            variables |= self._host_variables(role)
        return variables | self._torch_variables() | self._job_variables()

    def _host_variables(self, role: RoleShape) -> dict[str, str]:
        hosts = ",".join(self._hosts[role.name])
        name = f"VC_{role_token(role.name)}_HOSTS"
        if len(hosts) > HOSTS_VARIABLE_MAX_BYTES:
            given = {f"{name}_FILE": f"{self._shape.files_dir}/hosts/{role.name}"}
        else:
            given = {name: hosts}
        return {**given, num_variable(role.name): str(role.replicas)}

    def _torch_variables(self) -> dict[str, str]:
        shape = self._shape
        address = self._hosts[rank_order(shape.roles)[0].name][0]
        world_size, port = str(sum(role.replicas for role in shape.roles)), str(shape.master_port)
        return {
            "MASTER_ADDR": address,
            "MASTER_PORT": port,
            "WORLD_SIZE": world_size,
            "PET_NNODES": world_size,
            "PET_MASTER_ADDR": address,
            "PET_MASTER_PORT": port,
        }

    def _job_variables(self) -> dict[str, str]:
        shape = self._shape
        variables = {
            "VC_TASK_NAMES": ",".join(role.name for role in shape.roles),
            "TM_JOB_ID": shape.job,
            "TM_JOB_NAME": shape.name,
            "TM_ATTEMPT": str(shape.attempt),
            "TM_HOSTFILE": f"{shape.files_dir}/hostfile",
        }
        if shape.tensorboard_dir is not None:
            variables["TM_TENSORBOARD_DIR"] = shape.tensorboard_dir
        if shape.checkpoint_dir is not None:
            variables["TM_CHECKPOINT_DIR"] = shape.checkpoint_dir
            if shape.attempt > 1:
                variables["TM_RESUME"] = "1"
        return variables

    def _role_variables(self, role: RoleShape) -> dict[str, str]:
        processes = str(max(role.gpus, 1))
        return {"TM_ROLE": role.name, "NPROC_PER_NODE": processes, "PET_NPROC_PER_NODE": processes}

    def _hostfile_lines(self) -> Iterator[str]:
        for role in rank_order(self._shape.roles):
            slots = max(role.gpus, 1)
            for host in self._hosts[role.name]:
                yield f"{host} slots={slots}\n"
