"""A local engine that is watched, and small gangs to run on it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from services.scheduler.engines.local.engine import LocalEngine, LocalSettings
from services.scheduler.engines.local.memory_groups import find_memory_groups
from services.scheduler.ports.gangs import GangStart, ReplicaStart
from services.scheduler.ports.reports import CaughtUp, Observation, ReplicaExited, ReplicaStarted
from shared.clock import Clock
from shared.events import ReplicaExit
from shared.ids import new_job_id

PYTHON: Final = Path(sys.executable).resolve()
"""The interpreter itself: a virtual environment may lie in /tmp, which a sandbox has for its own."""

ROLE = "worker"
ALL_OF_IT_S = 60


def processes_of(gang: GangStart) -> list[int]:
    """Every process of the gang, the runners and bubblewrap included."""
    return list(_writing_below(gang.id))


def kill_runners(home: Path) -> None:
    """End whatever a failed test left running."""
    for pid in _writing_below(str(home)):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def remove_memory_groups(home: Path) -> None:
    """Remove the groups of gangs that no engine was asked to forget."""
    groups = find_memory_groups()
    for replica in (home / "gangs").glob("tj-*/replicas/*") if groups is not None else ():
        groups.remove(f"{replica.parent.parent.name}-{replica.name}")


def _writing_below(place: str) -> Iterator[int]:
    """Processes whose output goes to a file with this in its path."""
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdigit() and place in str((process / "fd/1").readlink()):
                yield int(process.name)


def gang_of(*commands: str, env: Mapping[str, str] | None = None, job: str | None = None, **parts: object) -> GangStart:
    """A gang with one replica a command."""
    job = job or new_job_id()
    replicas = tuple(
        ReplicaStart(ROLE, index, "n-here", command, env={**identity(job, index), **(env or {})})
        for index, command in enumerate(commands)
    )
    return GangStart(job, 1, "u-me", "default", "main", replicas, **parts)  # type: ignore[arg-type]


def identity(job: str, index: int) -> dict[str, str]:
    return {"TM_JOB_ID": job, "TM_ATTEMPT": "1", "TM_ROLE": ROLE, "TM_INDEX": str(index)}


class Bench:
    """An engine, and everything that it has reported."""

    def __init__(self, engine: LocalEngine) -> None:
        self.engine = engine
        self.seen: list[Observation] = []
        self._changed = asyncio.Condition()

    async def watch(self) -> None:
        async for observation in self.engine.observe():
            async with self._changed:
                self.seen.append(observation)
                self._changed.notify_all()

    async def until(self, *wanted: str) -> None:
        """Until all observations with these ids are in."""
        async with asyncio.timeout(ALL_OF_IT_S), self._changed:
            await self._changed.wait_for(lambda: set(wanted) <= self.ids())

    async def until_caught_up(self) -> frozenset[str]:
        async with asyncio.timeout(ALL_OF_IT_S), self._changed:
            await self._changed.wait_for(lambda: self._caught_up() is not None)
        found = self._caught_up()
        assert found is not None
        return found.gangs

    def ids(self) -> set[str]:
        return {each.id for each in self.seen if not isinstance(each, CaughtUp)}

    def _caught_up(self) -> CaughtUp | None:
        return next((each for each in self.seen if isinstance(each, CaughtUp)), None)

    async def run(self, gang: GangStart) -> list[ReplicaExit]:
        """Start a gang and wait for its end: the exits of its replicas, in order."""
        await self.engine.start(gang)
        return await self.exits(gang)

    async def started(self, gang: GangStart) -> None:
        await self.until(*(f"{gang.replica_id(each)}/started" for each in gang.replicas))

    async def exits(self, gang: GangStart) -> list[ReplicaExit]:
        await self.until(*(f"{gang.replica_id(each)}/exited" for each in gang.replicas))
        ends = {each.id: each.exit for each in self.seen if isinstance(each, ReplicaExited)}
        return [ends[f"{gang.replica_id(each)}/exited"] for each in gang.replicas]

    def starts(self, gang: GangStart) -> int:
        return sum(isinstance(each, ReplicaStarted) and each.replica.gang == gang.id for each in self.seen)


@asynccontextmanager
async def bench(settings: LocalSettings, clock: Clock | None = None) -> AsyncIterator[Bench]:
    """An engine that is watched while the block runs."""
    engine = await LocalEngine.open(settings, clock)
    made = Bench(engine)
    watching = asyncio.create_task(made.watch())
    try:
        yield made
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        engine.close()


def replica_dir(home: Path, gang: GangStart, index: int = 0) -> Path:
    return home / "gangs" / gang.id / "replicas" / f"{ROLE}-{index}"


def log_of(home: Path, gang: GangStart, index: int = 0) -> str:
    return (replica_dir(home, gang, index) / "log").read_text()


async def appears(path: Path, text: str = "") -> None:
    """Until a file that a job writes is there and has this in it."""
    async with asyncio.timeout(ALL_OF_IT_S):
        while not (path.exists() and text in path.read_text()):
            await asyncio.sleep(0.01)
