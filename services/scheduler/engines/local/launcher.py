"""Starts the runner of one replica, so that it needs nobody afterwards.

The runner gets a session of its own and only files as its input and output, so neither the death of the platform nor a
full pipe reaches it. Its order (command and environment, which may hold secrets) and bubblewrap's arguments travel in
memory files: they are neither on disk nor in the process list. bubblewrap itself is started with an empty environment,
since a job's `LD_PRELOAD` would otherwise run outside of the sandbox.

Standard input is the replica's lock. In the sandbox it is thereby held by bubblewrap's own process too, which outlives
the runner until the kernel has ended everything in the PID namespace: a free lock means that nothing is left.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

from services.scheduler.engines.local import runner
from services.scheduler.engines.local.gang_dir import GangDir, ReplicaDir
from services.scheduler.engines.local.host_tree import HostTree
from services.scheduler.engines.local.master_port import VARIABLES as PORT_VARIABLES
from services.scheduler.engines.local.memory_groups import MemoryGroups
from services.scheduler.engines.local.mounts import MountOpener
from services.scheduler.engines.local.preparation import (
    CODE,
    FILES,
    HOSTS,
    LOOPBACK,
    describe_replica,
    places_on_host,
)
from services.scheduler.engines.local.sandbox import Bind, Sandbox, View
from services.scheduler.engines.local.sandbox_probe import NoSandbox
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import GangStart, ReplicaStart
from shared.clock import Clock, rfc3339
from shared.logs_wire import PHASE_FILE
from shared.replica import PYTHON_DIR

RUNNER: Final = Path(runner.__file__).resolve()
# Python compiles a script anew at each start, which costs 5 ms; importing the runner above has left a compiled one.
_COMPILED: Final = Path(cache_from_source(str(RUNNER)))
OPEN_FILES: Final = 65_536
SHELL: Final = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"  # noqa: PTH110  # a text, not a place to go on from
ETC_FILES: Final = "/etc/trainmaster"


class Child:
    """A process that we started and only ever ask whether it is gone."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._pid: int | None = process.pid
        process.returncode = 0  # Popen would complain that the child outlives it, which is what this one is for

    def is_gone(self) -> bool:
        """Whether it has ended; takes its status off the kernel's hands."""
        if self._pid is not None:
            with suppress(ChildProcessError):
                if os.waitpid(self._pid, os.WNOHANG)[0] == 0:
                    return False
            self._pid = None
        return True


@dataclass(frozen=True, slots=True)
class Machine:
    """What is the same for every replica started here."""

    home: Path
    shut_in: Sandbox | NoSandbox
    groups: MemoryGroups | None
    python: Path
    path_variable: str
    has_gpus: bool
    clock: Clock


class Launcher:
    """Starts replicas on this machine."""

    def __init__(self, machine: Machine, bell: int) -> None:
        self._machine = machine
        self._bell = bell
        is_ours = machine.python == Path(sys.executable).resolve()
        script = _COMPILED if is_ours and _COMPILED.exists() else RUNNER
        self._runner = (str(machine.python), "-I", "-S", str(script))

    def launch(self, gang_dir: GangDir, gang: GangStart, start: ReplicaStart, lock: int) -> Child:
        """Start one replica, whose lock is held; raises StartRefusedError where that can never succeed."""
        replica = gang_dir.replicas[start.role, start.index]
        with ExitStack() as stack:
            mounts = self._mounts(gang, gang_dir, stack)
            fds = {**self._files(replica, stack), **self._memory_group(gang, start, stack)}
            order = self._order(gang_dir, gang, start, replica)
            fds["order"] = _memory_file("order", order, stack)
            command = [*self._runner, *(f"{name}={fd}" for name, fd in fds.items())]
            shut_in, inherited = self._shut_in(gang_dir, gang, start, mounts, stack)
            log = _open(replica.log, os.O_WRONLY | os.O_APPEND, stack)
            at = rfc3339(self._machine.clock.now())
            sandboxed = isinstance(self._machine.shut_in, Sandbox)
            places = places_on_host(gang, start, gang_dir.code, sandboxed=sandboxed)
            describe_replica(replica, gang, start, at, places)
            return _spawn([*shut_in, *command], lock, log, (*fds.values(), *inherited))

    def _mounts(self, gang: GangStart, gang_dir: GangDir, stack: ExitStack) -> tuple[Bind, ...]:
        if isinstance(self._machine.shut_in, NoSandbox):
            if gang.mounts:
                raise StartRefusedError(f"mounts need a sandbox: {self._machine.shut_in.reason}")
            return ()
        opener = MountOpener(self._machine.home, stack, as_descriptors=self._machine.shut_in.binds_descriptors)
        code = (Bind(str(gang_dir.code), CODE),) if gang.code is not None else ()
        return (*map(opener.open, gang.mounts), *code)

    def _files(self, replica: ReplicaDir, stack: ExitStack) -> dict[str, int]:
        replica.tmp.mkdir(exist_ok=True)
        replica.tmp.chmod(0o1777)
        with suppress(FileExistsError):
            os.mkfifo(replica.control, 0o600)
        told = {"started": replica.started, "exit": replica.exit}
        return {
            **{name: _open(path, os.O_WRONLY, stack) for name, path in told.items()},
            "stop": _open(replica.stop, os.O_RDONLY, stack),
            "control": _open(replica.control, os.O_RDWR | os.O_NONBLOCK, stack),
            "bell": self._bell,
        }

    def _memory_group(self, gang: GangStart, start: ReplicaStart, stack: ExitStack) -> dict[str, int]:
        if self._machine.groups is None or start.memory_bytes is None:
            return {}
        group = self._machine.groups.create(gang.replica_id(start), start.memory_bytes)
        return {
            "group": _open(group.processes, os.O_WRONLY, stack),
            "events": _open(group.events, os.O_RDONLY, stack),
        }

    def _order(self, gang_dir: GangDir, gang: GangStart, start: ReplicaStart, replica: ReplicaDir) -> list[str]:
        code = CODE if isinstance(self._machine.shut_in, Sandbox) else str(gang_dir.code)
        command = [SHELL, "-c", start.command]
        variables = self._environment(gang_dir, gang, start, replica)
        fields = [
            *(code if gang.code is not None else "/", str(OPEN_FILES)),
            *(str(len(command)), *command),
            *(f"{name}={value}" for name, value in variables.items()),
        ]
        if any("\0" in field for field in fields):
            raise StartRefusedError(f"role {start.role}: neither a command nor a variable may contain a NUL character")
        return fields

    def _environment(
        self, gang_dir: GangDir, gang: GangStart, start: ReplicaStart, replica: ReplicaDir
    ) -> dict[str, str]:
        port = dict.fromkeys(PORT_VARIABLES, str(gang_dir.record.master_port))
        base = {"PATH": self._machine.path_variable, "LANG": "C.UTF-8", "HOME": "/tmp"}  # noqa: S108  # the replica's own
        gpus = {"CUDA_VISIBLE_DEVICES": ",".join(start.devices)} if self._machine.has_gpus else {}
        if isinstance(self._machine.shut_in, Sandbox):
            path = _python_path({**start.env, **gang.secrets}, ETC_FILES)
            return {**base, **start.env, **gang.secrets, **port, **gpus, **path, "TM_PHASE_FILE": f"/tmp/{PHASE_FILE}"}  # noqa: S108
        base |= {"HOME": str(replica.tmp), "TMPDIR": str(replica.tmp)}
        phase = {"TM_PHASE_FILE": str(replica.tmp / PHASE_FILE)}
        addresses = {"MASTER_ADDR": LOOPBACK, "PET_MASTER_ADDR": LOOPBACK}
        env = _with_real_paths(start.env, gang_dir.etc / FILES)
        path = _python_path({**env, **gang.secrets}, str(gang_dir.etc / FILES))
        return {**base, **env, **gang.secrets, **port, **addresses, **gpus, **phase, **path}

    def _shut_in(
        self, gang_dir: GangDir, gang: GangStart, start: ReplicaStart, mounts: tuple[Bind, ...], stack: ExitStack
    ) -> tuple[list[str], tuple[int, ...]]:
        """What stands before the runner's command, and the descriptors that it needs."""
        sandbox = self._machine.shut_in
        if isinstance(sandbox, NoSandbox):
            return [], ()
        replica = gang_dir.replicas[start.role, start.index]
        view = View(
            host_name=gang.replica_id(start),
            tmp=str(replica.tmp),
            hosts_file=str(gang_dir.etc / HOSTS),
            files=str(gang_dir.etc / FILES),
            mounts=mounts,
            unseen=tuple(sorted({os.path.realpath(place) for place in gang.hidden})),
            hostfile_at=gang.hostfile_at,
        )
        arguments = _memory_file("bwrap", sandbox.arguments(view, HostTree()), stack)
        opened = tuple(bind.source for bind in mounts if isinstance(bind.source, int))
        told = _open(replica.sandbox, os.O_WRONLY | os.O_TRUNC, stack)
        return [sandbox.bwrap, "--info-fd", str(told), "--args", str(arguments), "--"], (told, arguments, *opened)


def _spawn(command: list[str], lock: int, log: int, inherited: Iterable[int]) -> Child:
    process = subprocess.Popen(  # noqa: S603  # the runner, and bubblewrap before it
        command,
        stdin=lock,
        stdout=log,
        stderr=log,
        pass_fds=tuple(inherited),
        env={},
        cwd="/",
        start_new_session=True,
    )
    return Child(process)


def _with_real_paths(env: Mapping[str, str], files: Path) -> dict[str, str]:
    """Variables that name a file below /etc/trainmaster name the real one, where nothing can be laid there."""
    inside = ETC_FILES + "/"
    return {
        name: str(files / value.removeprefix(inside)) if value.startswith(inside) else value
        for name, value in env.items()
    }


def _python_path(env: Mapping[str, str], files: str) -> dict[str, str]:
    """What training code may import of the platform, behind what the job wants."""
    return {"PYTHONPATH": ":".join(filter(None, (env.get("PYTHONPATH"), f"{files}/{PYTHON_DIR}")))}


def _open(path: Path, flags: int, stack: ExitStack) -> int:
    return _keep(os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600), stack)


def _memory_file(name: str, fields: list[str], stack: ExitStack) -> int:
    """Descriptor of NUL-terminated fields, to be read from the start."""
    fd = _keep(os.memfd_create(name), stack)
    with os.fdopen(fd, "wb", closefd=False) as file:
        file.write(b"".join(os.fsencode(field) + b"\0" for field in fields))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _keep(fd: int, stack: ExitStack) -> int:
    stack.callback(os.close, fd)
    return fd
