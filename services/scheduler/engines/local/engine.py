"""The local engine: what stands behind the `Engine` port on one machine.

All that it knows is on disk and all that runs goes on without it, so a new engine over the same directory continues
where a killed one was. Starting takes the replica's lock, looks whether it ever ran, and hands the lock to the runner;
there is no moment at which a second start could run it again. Observing reads the files of every replica that has not
ended, woken by the bell of the runners and, for those that were killed and cannot ring, once in a while.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

import structlog

from services.scheduler.domain.split import Split
from services.scheduler.engines.local import inventory, replica_state
from services.scheduler.engines.local.bell import Bell
from services.scheduler.engines.local.execution import Execution, identity_of
from services.scheduler.engines.local.files import try_lock
from services.scheduler.engines.local.gang_dir import GangDir, GangStore, record_of
from services.scheduler.engines.local.launcher import RUNNER, Child, Launcher, Machine
from services.scheduler.engines.local.lookout import Lookout
from services.scheduler.engines.local.master_port import pick_port
from services.scheduler.engines.local.memory_groups import find_memory_groups
from services.scheduler.engines.local.preparation import CODE, prepare
from services.scheduler.engines.local.sandbox_probe import NoSandbox, needed_paths, probe
from services.scheduler.engines.local.stopping import stop_gang
from services.scheduler.ports.engine import Inventory
from services.scheduler.ports.gangs import GangStart, ReplicaStart
from services.scheduler.ports.reports import CaughtUp, Observation
from services.scheduler.ports.sandboxes import ExecRefusedError, KeptSandbox
from shared.clock import Clock, SystemClock, rfc3339
from shared.ids import GangId, ReplicaId

CLOSING_S: Final = 0.005
# In the home folder of whoever runs the platform; the first has the token of the command line.
OPERATOR_SECRETS: Final = (
    *(".config/trainmaster", ".ssh", ".gnupg", ".netrc", ".git-credentials"),
    *(".aws", ".azure", ".config/gcloud", ".kube", ".docker"),
)


def operator_secrets() -> tuple[Path, ...]:
    """Where programs keep the credentials of the user who runs the platform."""
    return tuple(Path.home() / name for name in OPERATOR_SECRETS)


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """How the engine is set up; `hidden` is what no job may see beside the platform's home.

    `machine` is the name by which the agent of this machine is asked.

    `path_variable` is the PATH of start commands, so that they find the programs of the environment in which the
    platform runs. `sweep_s` is how often it looks for replicas whose runner was killed.
    """

    home: Path
    split: Split = field(default_factory=Split)
    machine: str = ""
    hidden: tuple[Path, ...] = field(default_factory=operator_secrets)
    path_variable: str = os.defpath
    python: Path = Path(sys.executable)
    sandboxed: bool = True
    sweep_s: float = 1.0


class LocalEngine:
    """Runs replicas on this machine."""

    lays_data: Final = True

    def __init__(self, settings: LocalSettings, machine: Machine, clock: Clock) -> None:
        self._settings = settings
        self._machine = machine
        self._clock = clock
        self._boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self._store = GangStore(machine.home / "gangs")
        self._gangs = self._store.load()
        forgotten = (gang_dir for gang_dir in self._gangs.values() if gang_dir.is_forgotten)
        self._forgotten = {gang_dir.id: gang_dir.kept_until for gang_dir in forgotten}
        self._ports = {gang_dir.id: gang_dir.record.master_port for gang_dir in self._gangs.values()}
        self._one_call_at_a_time: defaultdict[GangId, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._children: dict[ReplicaId, Child] = {}
        self._bell = Bell(machine.home / "gangs" / ".bell")
        self._launcher = Launcher(machine, self._bell.fd)

    @classmethod
    async def open(cls, settings: LocalSettings, clock: Clock | None = None) -> LocalEngine:
        """The engine over a home, after a look at what works on this machine."""
        clock = clock or SystemClock()
        machine = await asyncio.to_thread(_look_at_machine, settings, clock)
        if isinstance(machine.shut_in, NoSandbox):
            structlog.get_logger(service="scheduler").warning("no_sandbox", reason=machine.shut_in.reason)
        return await asyncio.to_thread(cls, settings, machine, clock)

    def close(self) -> None:
        """Let go of everything; replicas run on."""
        self._bell.close()

    @property
    def no_sandbox_because(self) -> str:
        """Why replicas are not shut in; empty where they are."""
        return self._machine.shut_in.reason if isinstance(self._machine.shut_in, NoSandbox) else ""

    async def inventory(self) -> Inventory:
        """The machine as the nodes that the settings ask for."""
        hardware = await asyncio.to_thread(inventory.look_at_machine)
        nodes = inventory.divided(hardware, self._settings.split, self._settings.machine)
        return Inventory(nodes, self.no_sandbox_because, ("file", "s3"))

    async def start(self, gang: GangStart) -> None:
        """Start every replica that never ran; none where a stop was asked for."""
        async with self._one_call_at_a_time[gang.id]:
            if gang.id not in self._ports:
                self._ports[gang.id] = pick_port(gang, self._ports.values())
            await asyncio.to_thread(self._start, gang, self._ports[gang.id])

    async def stop(self, gang_id: GangId, grace_s: float) -> bool:
        """Have every replica end within the grace; false where the gang is not known."""
        async with self._one_call_at_a_time[gang_id]:
            gang_dir = self._gangs.get(gang_id)
            if gang_dir is None:
                return False
            await asyncio.to_thread(stop_gang, gang_dir, grace_s, self._clock)
        self._bell.ring()
        return True

    async def forget(self, gang_id: GangId, keep_until: datetime | None = None) -> None:
        """Report the gang no more, and remove it once its logs are shipped and nobody wants to look at it."""
        gang_dir = self._gangs.get(gang_id)
        if gang_dir is None or gang_id in self._forgotten:
            return
        gang_dir.forget(keep_until)
        self._forgotten[gang_id] = keep_until
        if keep_until is None and _has_ended(gang_dir):
            self._remove_memory_groups(gang_dir)
            await asyncio.to_thread(gang_dir.remove_work_files)

    async def execute(
        self, gang_id: GangId, role: str, index: int, command: tuple[str, ...], limit_s: float
    ) -> Execution:
        """Run one more command in the sandbox of a running replica, with its rights; raises ExecRefusedError."""
        if self.no_sandbox_because:
            raise ExecRefusedError(f"without a sandbox there is none to run a command in: {self.no_sandbox_because}")
        gang_dir = self._gangs.get(gang_id)
        replica = gang_dir.replicas.get((role, index)) if gang_dir is not None else None
        if gang_dir is None or replica is None:
            raise ExecRefusedError(f"there is no replica {role}-{index} in {gang_id} on this machine")
        groups = self._machine.groups
        group = groups.find(replica.ref.id) if groups is not None else None
        directory = CODE if gang_dir.code.exists() else "/"
        processes = group.processes if group is not None else None
        return Execution.of(self._machine.python, identity_of(replica), processes, directory, command, limit_s)

    def kept(self, job: str) -> tuple[KeptSandbox, ...]:
        """What is held of ended attempts of the job."""
        held = ((self._gangs[gang_id], until) for gang_id, until in self._forgotten.items() if until is not None)
        machine = socket.gethostname()
        return tuple(
            KeptSandbox(gang_dir.record.attempt, machine, str(gang_dir.path), until)
            for gang_dir, until in held
            if gang_dir.record.job == job
        )

    def holdups(self, gang_id: GangId) -> Mapping[str, str]:  # noqa: ARG002
        """None: replicas that are started run at once."""
        return {}

    async def observe(self) -> AsyncIterator[Observation]:
        """What is known of every gang that is not forgotten, then `CaughtUp`, then what happens, without end."""
        lookout = Lookout(self._children, self._boot_id, self._clock)
        time = asyncio.get_running_loop().time
        rung, sweep_at, caught_up = asyncio.Event(), time(), False
        with self._bell.heard_by(rung.set):
            while True:
                rung.clear()
                lookout.begin(thorough=time() >= sweep_at)
                gangs = self._gangs.copy()  # starts go on in other threads
                watched = [gang_dir for gang_id, gang_dir in gangs.items() if gang_id not in self._forgotten]
                for gang_dir in watched:
                    for observation in lookout.news(gang_dir):
                        yield observation
                if not (caught_up or lookout.closing):
                    caught_up = True
                    yield CaughtUp(frozenset(gang_dir.id for gang_dir in watched))
                if lookout.thorough:
                    await self._clear_away(lookout)
                    sweep_at = time() + self._settings.sweep_s
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(time() + CLOSING_S if lookout.closing else sweep_at):
                        await rung.wait()

    def _start(self, gang: GangStart, port: int) -> None:
        gang_dir = self._gangs.get(gang.id)
        if gang_dir is None:
            gang_dir = self._gangs[gang.id] = self._create(gang, port)
        if gang_dir.stop_request is not None:
            return
        prepare(gang_dir, gang, self._settings.home)
        for start in gang.replicas:
            self._start_replica(gang_dir, gang, start)

    def _create(self, gang: GangStart, port: int) -> GangDir:
        created_at = rfc3339(self._clock.now())
        record = record_of(gang, master_port=port, boot_id=self._boot_id, created_at=created_at)
        return self._store.create(record, gang.id)

    def _start_replica(self, gang_dir: GangDir, gang: GangStart, start: ReplicaStart) -> None:
        replica = gang_dir.replicas[start.role, start.index]
        replica.path.mkdir(mode=0o700, exist_ok=True)
        lock = try_lock(replica.lock)
        if lock is None:
            return
        try:
            if replica_state.started(replica) is None and replica_state.ended(replica) is None:
                self._children[replica.ref.id] = self._launcher.launch(gang_dir, gang, start, lock)
        finally:
            os.close(lock)

    async def _clear_away(self, lookout: Lookout) -> None:
        """Take note of children that have ended, and remove forgotten gangs that nobody needs any more."""
        children = self._children.copy()
        running = {replica_id for replica_id, child in children.items() if not child.is_gone()}
        for gang_id in tuple(self._forgotten):
            gang_dir = self._gangs[gang_id]
            if self._is_held(gang_id):
                continue
            replica_ids = {replica.ref.id for replica in gang_dir.replicas.values()}
            if _is_done_with(gang_dir) and not replica_ids & running:
                lookout.forget(gang_dir)
                await self._remove(gang_dir)

    def _is_held(self, gang_id: GangId) -> bool:
        until = self._forgotten[gang_id]
        return until is not None and self._clock.now() < until

    async def _remove(self, gang_dir: GangDir) -> None:
        async with self._one_call_at_a_time.pop(gang_dir.id, asyncio.Lock()):
            del self._forgotten[gang_dir.id], self._gangs[gang_dir.id], self._ports[gang_dir.id]
            for replica in gang_dir.replicas.values():
                self._children.pop(replica.ref.id, None)
            self._remove_memory_groups(gang_dir)
            await asyncio.to_thread(gang_dir.remove)

    def _remove_memory_groups(self, gang_dir: GangDir) -> None:
        if self._machine.groups is not None:
            for replica in gang_dir.replicas.values():
                self._machine.groups.remove(replica.ref.id)


def _has_ended(gang_dir: GangDir) -> bool:
    replicas = gang_dir.replicas.values()
    return all(replica_state.ended(each) is not None and replica_state.is_settled(each) for each in replicas)


def _is_done_with(gang_dir: GangDir) -> bool:
    return _has_ended(gang_dir) and all(replica.is_shipped for replica in gang_dir.replicas.values())


def _look_at_machine(settings: LocalSettings, clock: Clock) -> Machine:
    home, python = settings.home.resolve(), settings.python.resolve()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    needed = needed_paths(python, RUNNER.parent, settings.path_variable)
    shut_in = (
        probe(hidden=(home, *settings.hidden), needed=needed, python=python)
        if settings.sandboxed
        else NoSandbox("it is switched off")
    )
    return Machine(
        home=home,
        shut_in=shut_in,
        groups=find_memory_groups(),
        python=python,
        path_variable=settings.path_variable,
        has_gpus=bool(inventory.read_gpus().devices),
        clock=clock,
    )
