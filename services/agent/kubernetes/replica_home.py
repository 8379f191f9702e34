"""The directory of a replica that runs as a pod: laid like the local engine's, filled by a relay, removed when done.

    gangs/<gang>/replicas/<role>-<index>/
        pod.json                 which pod it is, for the next life of the agent
        ship.json                what is to be shipped, once it is known where event files and checkpoints are
        log relay.json           what the process wrote, and how far that is copied (see `relay`)
        exit.json                the container has ended, and the log is complete
        samples shipped.json     written by what ships the logs

A container has ended when the kubelet says so. Where its pod is deleted and nothing was said, it may still run for its
grace period; then it has ended when its log directory is gone, or has been quiet for `GONE_QUIET_S`.

Where an init container failed, the replica's own never runs, and what the init container wrote is the replica's log.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from services.agent.kubernetes.pods import Pod, VolumePath
from services.agent.kubernetes.relay import QUIET_S, Relay
from services.agent.kubernetes.volume_paths import Place, find_place
from services.agent.memory import write_atomically
from services.agent.replica import EXIT_FILE, SHIP_FILE, SHIPPED_FILE
from shared.kubernetes.names import REPLICA_CONTAINER, node_id
from shared.logs_wire import ReplicaRef
from shared.trees import remove_tree

POD_FILE: Final = "pod.json"
GONE_QUIET_S: Final = 30.0
FINDING_S: Final = 5.0
"""How long a container may run before its log is shipped without the event files that are not found."""


@dataclass(frozen=True, slots=True)
class Node:
    """Where things are on this node, and which node it is."""

    cluster: str
    name: str
    pod_logs: Path
    kubelet: Path
    gangs: Path

    @property
    def id(self) -> str:
        """The platform's id of the node."""
        return node_id(self.cluster, self.name)

    def directory(self, pod: Pod) -> Path:
        """Where the pod's replica is laid."""
        return self.gangs / pod.gang / "replicas" / f"{pod.replica.role}-{pod.replica.index}"


class ReplicaHome:
    """One replica's directory; made for a pod, which may change and go."""

    def __init__(self, node: Node, pod: Pod, now: float) -> None:
        self._node = node
        self.pod = pod
        self.path = node.directory(pod)
        self.path.mkdir(parents=True, exist_ok=True)
        self._is_gone = False
        self._ended_at: float | None = None
        self._begun_at: float | None = None
        self._relay: Relay | None = None
        self._remember()
        self.take(pod, now)

    @property
    def is_complete(self) -> bool:
        """Whether the log will not grow any more."""
        return (self.path / EXIT_FILE).exists()

    @property
    def is_over(self) -> bool:
        """Whether nobody needs the directory any more."""
        return self._is_gone and (self.path / SHIPPED_FILE).exists()

    @property
    def log_directory(self) -> Path:
        """The container's directory of logs, or the one above it while there is none: what is worth watching."""
        pod = self._node.pod_logs / self.pod.log_directory
        container = pod / REPLICA_CONTAINER
        return next((path for path in (container, pod) if path.is_dir()), self._node.pod_logs)

    def take(self, pod: Pod, now: float) -> None:
        """The pod has changed."""
        if pod.uid != self.pod.uid:
            return
        before, self.pod = self.pod, pod
        if _lasting(pod) != _lasting(before):
            self._remember()
        if pod.has_begun and self._begun_at is None:
            self._begun_at = now
        if pod.has_ended and self._ended_at is None:
            self._ended_at = now

    def gone(self, now: float) -> None:
        """The pod is deleted."""
        self._is_gone = True
        self._ended_at = now if self._ended_at is None else self._ended_at

    def step(self, now: float, *, look: bool) -> bool:
        """Copy a piece; whether there was one. Raises OSError, after which the next step begins anew."""
        if self.is_complete:
            return False
        try:
            return self._step(self._relaying(), now, look=look)
        except OSError:
            self.close()
            raise

    def remove(self) -> None:
        """Nobody needs it any more."""
        self.close()
        remove_tree(self.path)
        for parent in (self.path.parent, self.path.parent.parent):
            if not any(parent.iterdir()):
                parent.rmdir()

    def close(self) -> None:
        """Let go of all files."""
        if self._relay is not None:
            self._relay.close()
            self._relay = None

    def _step(self, relay: Relay, now: float, *, look: bool) -> bool:
        if look:
            relay.look()
        moved = relay.step(now)
        relay.save(now)
        self._ship(relay, now)
        if not moved and self._has_ended(relay, now) and look:
            relay.finish()
            self._write_ship()
            write_atomically(self.path / EXIT_FILE, json.dumps({"pod": self.pod.uid}))
            self.close()
        return moved

    def _relaying(self) -> Relay:
        """The relay of the container that counts: an init container's where it failed and nothing else ever ran."""
        failed = self.pod.failed_init
        if self._relay is not None and failed and not self._relay.has_begun:
            self.close()
        if self._relay is None:
            container = failed or REPLICA_CONTAINER
            preface = f"[trainmaster] init container {failed!r} failed; what follows is its output\n" if failed else ""
            source = self._node.pod_logs / self.pod.log_directory / container
            self._relay = Relay(source, self.path, preface.encode())
        return self._relay

    def _has_ended(self, relay: Relay, now: float) -> bool:
        if self._ended_at is None:
            return False
        quiet_s = now - max(self._ended_at, relay.moved_at)
        is_told = self.pod.has_ended or not (self._node.pod_logs / self.pod.log_directory).exists()
        return quiet_s >= (QUIET_S if is_told else GONE_QUIET_S)

    def _ship(self, relay: Relay, now: float) -> None:
        """Have the log shipped as soon as it is known where the attempt writes, or it is clear that it is not found."""
        if (self.path / SHIP_FILE).exists() or not relay.has_begun:
            return
        waited_s = now - self._begun_at if self._begun_at is not None else 0.0
        wanted = filter(None, (self.pod.event_files, self.pod.checkpoints))
        if all(map(self._find, wanted)) or waited_s >= FINDING_S:
            self._write_ship()

    def _write_ship(self) -> None:
        path = self.path / SHIP_FILE
        if path.exists():
            return
        replica, event_files = self.pod.replica, self._find(self.pod.event_files)
        checkpoints = self._find(self.pod.checkpoints)
        manifest = {
            "job": replica.job,
            "attempt": replica.attempt,
            "role": replica.role,
            "index": replica.index,
            "node": self._node.id,
            "started_at": self.pod.started_at,
            "log": "log",
            "tensorboard": str(event_files.path) if event_files else None,
            "tensorboard_root": str(event_files.root) if event_files else None,
            "checkpoints": str(checkpoints.path) if checkpoints else None,
            "checkpoints_root": str(checkpoints.root) if checkpoints else None,
        }
        write_atomically(path, json.dumps(manifest))

    def _find(self, wanted: VolumePath | None) -> Place | None:
        return find_place(self._node.kubelet, self.pod, wanted)

    def _remember(self) -> None:
        write_atomically(self.path / POD_FILE, json.dumps(asdict(self.pod)))


def _lasting(pod: Pod) -> tuple[object, ...]:
    return pod.container, pod.has_ended, pod.failed_init


def read_pod(directory: Path) -> Pod | None:
    """The pod that a directory was laid for; None where that cannot be read."""
    try:
        given = json.loads((directory / POD_FILE).read_text("ascii"))
        named = {name: VolumePath(**given[name]) for name in ("event_files", "checkpoints") if given.get(name)}
        return Pod(**{**given, "replica": ReplicaRef(**given["replica"]), **named})
    except (OSError, ValueError, TypeError, KeyError):
        return None
