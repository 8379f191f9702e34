"""Where the engine keeps what it knows of a gang: one directory, which exists only with its complete `gang.json`.

    gangs/<gang>/gang.json       who the gang is, its port, and the boot of the machine in which it was made
    gangs/<gang>/stop            a stop was asked for: nothing is started any more
    gangs/<gang>/forgotten       every exit is on record elsewhere; the time until which it is held, where one was given
    gangs/<gang>/code/ etc/      what its replicas see at /code, /etc/hosts and /etc/trainmaster
    gangs/<gang>/replicas/<role>-<index>/
        replica.json ship.json   what was started, and what the agent is to ship
        log                      what the command writes
        lock                     held as long as a process of the replica may live
        control stop             how the runner is told to stop (see `runner`)
        started.json exit.json   what the runner has to tell; empty until it does
        shipped.json             written by the agent when it is done
        sandbox.json             who the runner is on the host, as bubblewrap tells it
        tmp/                     what the replica sees at /tmp

No command, environment or secret is written here. `exit.json` with content beside a free lock is the end of a replica.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from services.scheduler.engines.local.files import read_text, sync, write_atomic
from services.scheduler.ports.gangs import GangStart
from services.scheduler.ports.reports import ReplicaRef
from shared.clock import parse_rfc3339, rfc3339
from shared.ids import GangId
from shared.trees import remove_tree

_NEW: Final = ".new-"
_GONE: Final = ".gone-"


@dataclass(frozen=True, slots=True)
class ReplicaIdentity:
    """Which replica of a gang, and on which node it was placed."""

    role: str
    index: int
    node: str


@dataclass(frozen=True, slots=True)
class GangRecord:
    """Content of `gang.json`."""

    job: str
    attempt: int
    owner: str
    project: str
    cluster: str
    master_port: int
    boot_id: str
    created_at: str
    replicas: tuple[ReplicaIdentity, ...]


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Content of the gang's `stop`."""

    grace_s: float


_RECORD: Final = TypeAdapter(GangRecord)
_STOP: Final = TypeAdapter(StopRequest)


class ReplicaDir:
    """Paths of one replica."""

    def __init__(self, path: Path, ref: ReplicaRef) -> None:
        self.path = path
        self.ref = ref
        self.log = path / "log"
        self.lock = path / "lock"
        self.control = path / "control"
        self.stop = path / "stop"
        self.started = path / "started.json"
        self.exit = path / "exit.json"
        self.identity = path / "replica.json"
        self.ship = path / "ship.json"
        self.sandbox = path / "sandbox.json"
        self.tmp = path / "tmp"

    @property
    def is_shipped(self) -> bool:
        """Whether nobody needs the log any more; there is none of a replica that was never started."""
        return (self.path / "shipped.json").exists() or not self.ship.exists()


class GangDir:
    """One gang on disk."""

    def __init__(self, path: Path, record: GangRecord) -> None:
        self.path = path
        self.record = record
        self.code = path / "code"
        self.etc = path / "etc"
        self.replicas = {(each.role, each.index): self._replica(each) for each in self.record.replicas}

    @property
    def id(self) -> GangId:
        """Name of the gang."""
        return GangId(self.path.name)

    @property
    def is_forgotten(self) -> bool:
        """Whether nobody wants reports of it any more."""
        return (self.path / "forgotten").exists()

    def forget(self, keep_until: datetime | None = None) -> None:
        """Note that nobody wants reports any more, and how long to hold what is here."""
        write_atomic(self.path / "forgotten", rfc3339(keep_until) if keep_until else "")

    @property
    def kept_until(self) -> datetime | None:
        """Until when a forgotten gang is held."""
        try:
            return parse_rfc3339(read_text(self.path / "forgotten"))
        except ValueError:
            return None

    @property
    def stop_request(self) -> StopRequest | None:
        """The stop that was asked for, if any; one that a crash left torn was not, and is asked for again."""
        try:
            return _STOP.validate_json(read_text(self.path / "stop"))
        except ValueError:
            return None

    def request_stop(self, request: StopRequest) -> None:
        """Note the stop, so that nothing of the gang is started any more."""
        write_atomic(self.path / "stop", _STOP.dump_json(request).decode())

    def remove_work_files(self) -> None:
        """Remove what only running replicas need."""
        for path in (self.code, self.etc, *(replica.tmp for replica in self.replicas.values())):
            remove_tree(path)

    def remove(self) -> None:
        """Remove the whole gang; a crash half way leaves a directory that `GangStore` clears away."""
        gone = self.path.with_name(_GONE + self.path.name)
        self.path.rename(gone)
        remove_tree(gone)

    def _replica(self, identity: ReplicaIdentity) -> ReplicaDir:
        ref = ReplicaRef(self.record.job, self.record.attempt, identity.role, identity.index, identity.node)
        return ReplicaDir(self.path / "replicas" / f"{identity.role}-{identity.index}", ref)


class GangStore:
    """All gangs of one platform home."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def load(self) -> dict[GangId, GangDir]:
        """Every gang there is; what a crash left half made or half removed is cleared away."""
        gangs = {}
        for path in sorted(self._path.iterdir()):
            if path.is_dir():
                gang_dir = _read(path)
                if gang_dir is None:
                    remove_tree(path)
                else:
                    gangs[gang_dir.id] = gang_dir
        return gangs

    def create(self, record: GangRecord, gang_id: GangId) -> GangDir:
        """Make the gang's directory, complete in one step, and durable before this returns."""
        path, new = self._path / gang_id, self._path / (_NEW + gang_id)
        remove_tree(new)
        (new / "replicas").mkdir(mode=0o700, parents=True)
        (new / "gang.json").write_bytes(_RECORD.dump_json(record))
        new.rename(path)
        sync(path / "gang.json")
        sync(self._path)
        return GangDir(path, record)


def _read(path: Path) -> GangDir | None:
    """The gang in a directory, unless it is not complete: then nothing of it was ever started.

    `create` returns when `gang.json` is durable: a torn one is what a loss of power left of a gang that was not made.
    """
    if path.name.startswith((_NEW, _GONE)):
        return None
    try:
        return GangDir(path, _RECORD.validate_json(read_text(path / "gang.json")))
    except ValueError:
        return None


def record_of(gang: GangStart, *, master_port: int, boot_id: str, created_at: str) -> GangRecord:
    """What is worth remembering of a gang; its commands and environments are not."""
    identities = tuple(ReplicaIdentity(each.role, each.index, each.node) for each in gang.replicas)
    return GangRecord(
        job=gang.job,
        attempt=gang.attempt,
        owner=gang.owner,
        project=gang.project,
        cluster=gang.cluster,
        master_port=master_port,
        boot_id=boot_id,
        created_at=created_at,
        replicas=identities,
    )
