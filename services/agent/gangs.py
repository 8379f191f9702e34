"""Which replicas are on this machine: a walk over `gangs/<gang>/replicas/<role>-<index>/`.

`Gangs.scan` opens what is new, drops what is gone or shipped, and gives the directories in which a change matters: new
gangs, new replicas, and the files of each replica that is not finished.
"""

from __future__ import annotations

import logging
from pathlib import Path

from services.agent.domain.manifest import ManifestError
from services.agent.memory import Memory
from services.agent.replica import Replica, open_replica
from shared.logs_wire import ReplicaRef

_log = logging.getLogger(__name__)


class Gangs:
    """The replicas that are being shipped, by directory."""

    def __init__(self, directory: Path, memory: Memory) -> None:
        self._directory = directory
        self._memory = memory
        self._complaints: dict[Path, str] = {}
        self.replicas: dict[Path, Replica] = {}
        self._by_ref: dict[ReplicaRef, Replica] = {}

    def scan(self) -> set[Path]:
        """Bring `replicas` up to date; gives the directories to watch."""
        watched = {self._directory}
        for gang in _directories(self._directory):
            watched |= {gang, gang / "replicas"}
            for directory in _directories(gang / "replicas"):
                self._open(directory)
                watched.add(directory)
        return {directory for directory in watched if directory.exists()}

    def finish(self, replica: Replica) -> None:
        """All of the replica is kept."""
        replica.finish()
        del self.replicas[replica.directory]
        del self._by_ref[replica.manifest.replica]

    def find(self, ref: ReplicaRef) -> Replica | None:
        """The replica, where it is being shipped."""
        return self._by_ref.get(ref)

    def siblings(self, replica: Replica) -> list[Replica]:
        """The replicas of the same gang, this one included."""
        return [other for other in self.replicas.values() if other.gang == replica.gang]

    def close(self) -> None:
        """Remember everything and let go of all files."""
        for replica in self.replicas.values():
            replica.save()
            replica.close()

    def _open(self, directory: Path) -> None:
        if directory in self.replicas:
            return
        try:
            replica = open_replica(directory, self._memory)
        except ManifestError as error:
            self._complain(directory, error.message)
            return
        if replica is not None:
            self.replicas[directory] = replica
            self._by_ref[replica.manifest.replica] = replica
            _log.info("shipping %s", replica.manifest.replica.tokens)

    def _complain(self, directory: Path, message: str) -> None:
        """Once for each kind of trouble: the directory is looked at again and again."""
        if self._complaints.get(directory) != message:
            self._complaints[directory] = message
            _log.error("%s: %s", directory, message)


def _directories(parent: Path) -> list[Path]:
    try:
        return [entry for entry in parent.iterdir() if not entry.name.startswith(".") and entry.is_dir()]
    except OSError:
        return []
