"""An engine of simulated nodes whose state is a directory, so that several scheduler processes have one cluster.

A gang is a directory with its record; its replicas run from then on, until the file `stop` is in there. The nodes are
what `.nodes` says at the moment. That is how a real cluster looks to schedulers: whoever asks sees the same.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from services.scheduler.ports.engine import Inventory, NodeOffer
from services.scheduler.ports.gangs import GangStart
from services.scheduler.ports.reports import CaughtUp, Observation, ReplicaExited, ReplicaRef, ReplicaStarted
from services.scheduler.ports.sandboxes import ExecRefusedError, Execution, KeptSandbox
from shared.events import ReplicaExit
from shared.ids import GangId

POLL_S: Final = 0.05
GIB: Final = 1 << 30


class SimulatedEngine:
    lays_data: Final = True

    def __init__(self, directory: Path):
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def offer(self, *names: str, cores: int = 64, memory_gib: int = 256, **labels: str) -> None:
        """These are the nodes from now on."""
        nodes = [{"name": name, "cores": cores, "memory_gib": memory_gib, "labels": labels} for name in names]
        new = self.directory / ".nodes.new"
        new.write_text(json.dumps(nodes))
        new.rename(self.directory / ".nodes")

    async def close(self) -> None:
        """It goes on without us."""

    async def inventory(self) -> Inventory:
        return Inventory(tuple(map(_offer, json.loads((self.directory / ".nodes").read_text()))))

    async def start(self, gang: GangStart) -> None:
        self.put(
            gang.id, [ReplicaRef(gang.job, gang.attempt, each.role, each.index, each.node) for each in gang.replicas]
        )

    def put(self, gang: str, replicas: list[ReplicaRef]) -> None:
        """The gang runs."""
        new = self.directory / f".{gang}"
        new.mkdir(exist_ok=True)
        rows = [[each.job, each.attempt, each.role, each.index, each.node] for each in replicas]
        (new / "record").write_text(json.dumps(rows))
        try:
            new.rename(self.directory / gang)
        except OSError:  # somebody has started it before
            shutil.rmtree(new)

    async def observe(self) -> AsyncIterator[Observation]:
        started: set[str] = set()
        ended: set[str] = set()
        caught_up = False
        while True:
            gangs = sorted(path for path in self.directory.iterdir() if not path.name.startswith("."))
            for path in gangs:
                for observation in _news(path, started, ended):
                    yield observation
            if not caught_up:
                caught_up = True
                yield CaughtUp(frozenset(GangId(path.name) for path in gangs))
            await asyncio.sleep(POLL_S)

    async def stop(self, gang_id: GangId, grace_s: float) -> bool:
        path = self.directory / gang_id
        if path.exists():
            (path / "stop").touch()
        return path.exists()

    async def forget(self, gang_id: GangId, keep_until: datetime | None = None) -> None:
        shutil.rmtree(self.directory / gang_id, ignore_errors=True)

    async def execute(
        self, gang_id: GangId, role: str, index: int, command: tuple[str, ...], limit_s: float
    ) -> Execution:
        raise ExecRefusedError("simulated replicas run nothing")

    def kept(self, job: str) -> tuple[KeptSandbox, ...]:
        return ()

    def holdups(self, gang_id: GangId) -> Mapping[str, str]:
        return {}


def _news(path: Path, started: set[str], ended: set[str]) -> Iterator[Observation]:
    now = datetime.now(UTC)
    try:
        replicas = [ReplicaRef(*row) for row in json.loads((path / "record").read_text())]
    except FileNotFoundError:
        return
    if path.name not in started:
        started.add(path.name)
        yield from (ReplicaStarted(replica, now) for replica in replicas)
    if path.name not in ended and (path / "stop").exists():
        ended.add(path.name)
        end = ReplicaExit(signal=15, cause="stopped")
        yield from (ReplicaExited(replica, now, end) for replica in replicas)


def _offer(node: dict[str, Any]) -> NodeOffer:
    name = node["name"]
    return NodeOffer(f"n-{name}", name, node["cores"] * 1000, node["memory_gib"] * GIB, facts=node["labels"])
