"""The scheduler as a service: its start over a long past, and how soon another takes over from a dead or halted one.

The past is 100,000 jobs (98,000 ended, 1,000 running, 1,000 waiting) in a real nats-server. A read model is built from
all of it, which gives the rate of a rebuild; then 10,000 further events come while no scheduler runs, and a real
process is started and timed until the stream has its first decision. Nodes are simulated, everything else is real.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import psutil

from benchmarks.report import Row, progress, report
from services.scheduler.ports.reports import ReplicaRef
from shared import events as ev
from shared.auth.keys import SigningKey
from shared.bus import Bus
from shared.bus.provision import provision
from shared.events import Event, encode, subject_of
from shared.ids import gang_id, new_job_id
from shared.readmodel import JobReadModel
from shared.vault import Keyring
from tests.support.jobs import role
from tests.support.nats import NatsServer
from tests.support.simulated_engine import SimulatedEngine

_JOBS: Final = 100_000
_QUICK_JOBS: Final = 10_000
_RUNNING: Final = 1_000
_WAITING: Final = 1_000
_MISSED: Final = 10_000
_REPLICAS: Final = 8
_NODES: Final = 1_000
_TAKEOVERS: Final = 5
_PLACEHOLDER: Final = "tj-aaaaaaaaaaaa"
_FLUSH_EVERY: Final = 5_000


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the past")
    report("scheduler_service", rows(quick=parser.parse_args().quick))


def rows(*, quick: bool = False) -> list[Row]:
    """Every figure of this page."""
    with _rig() as rig:
        return [*asyncio.run(_start(rig, _QUICK_JOBS if quick else _JOBS)), *asyncio.run(_takeovers(rig))]


@dataclass(frozen=True, slots=True)
class _Rig:
    """A nats-server, a simulated cluster, and homes for schedulers."""

    root: Path
    nats: NatsServer
    engine: SimulatedEngine

    def settings(self, instance: str) -> dict[str, str]:
        home = self.root / instance
        home.mkdir(exist_ok=True)
        return {
            "TRAINMASTER_NATS_URL": self.nats.url,
            "TRAINMASTER_HOME": str(home),
            "TRAINMASTER_INSTANCE": instance,
            "TRAINMASTER_JWKS_FILE": str(self.root / "jwks.json"),
            "TRAINMASTER_SECRET_KEYS_FILE": str(self.root / "secret-keys.json"),
            "SIMULATED_CLUSTER": str(self.engine.directory),
        }

    def start(self, instance: str) -> subprocess.Popen[bytes]:
        with (self.root / f"{instance}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.support.scheduler_process"],
                env={**os.environ, **self.settings(instance)},
                stdout=log,
                stderr=log,
            )


@contextmanager
def _rig() -> Iterator[_Rig]:
    root = Path(tempfile.mkdtemp(prefix="trainmaster-bench-"))
    (root / "jwks.json").write_text(json.dumps(SigningKey.generate().public().jwks()))
    (root / "secret-keys.json").write_text(Keyring.generate().text())
    engine = SimulatedEngine(root / "cluster")
    engine.offer(*(f"node-{number}" for number in range(_NODES)))
    nats = NatsServer(root / "nats")
    try:
        yield _Rig(root, nats, engine)
    finally:
        nats.kill()
        shutil.rmtree(root, ignore_errors=True)


# --- start -----------------------------------------------------------------------------------------------------------


async def _start(rig: _Rig, jobs: int) -> list[Row]:
    rig.nats.sync_always = False  # the past is written quickly; only what is measured is on disk
    rig.nats.start()
    bus = await rig.nats.bus()
    await provision(bus.js)
    progress(f"writing the past of {jobs} jobs")
    events = await _publish_past(bus, rig.engine, jobs)
    progress(f"building a read model from {events} events")
    rebuild_s = await _rebuild(bus, rig)
    progress(f"{_MISSED} further events while no scheduler runs")
    await _publish(bus, _lives(_MISSED // len(_ENDED), _ENDED))
    await _publish(bus, _lives(1, (_SUBMITTED,)))
    _, before = await bus.stream_identity()
    await bus.close()
    rig.nats.kill()
    rig.nats.sync_always = True
    rig.nats.start()
    bus = await rig.nats.bus()
    progress("starting a scheduler")
    began = time.perf_counter()
    process = rig.start("first")
    await _first_decision(bus, before)
    took, cpu_s = time.perf_counter() - began, _cpu_s(process.pid)
    process.terminate()
    process.wait()
    await bus.close()
    rig.nats.kill()
    return [
        Row(f"rebuild of a read model, {jobs} jobs", events / rebuild_s, "events/s", "higher"),
        Row(f"rebuild of a read model, {jobs} jobs, whole", rebuild_s, "s", "lower"),
        Row(
            f"start with {jobs} jobs and {_MISSED} events missing, first decision",
            took,
            "s",
            "lower",
            5,
            "a bare Python with the same imports",
            _bare_start_s(),
        ),
        Row("the same, CPU of the process (other work on the machine does not count)", cpu_s, "s", "lower", 5),
    ]


def _cpu_s(pid: int) -> float:
    """What a process has used of CPUs."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def _bare_start_s() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import tests.support.scheduler_process"], check=True)
    return time.perf_counter() - began


async def _first_decision(bus: Bus, after: int) -> None:
    """Return when the stream has a placement behind the sequence."""
    while await bus.history.last_sequence("tm.job.*.state.placed") <= after:
        await asyncio.sleep(0.01)


async def _rebuild(bus: Bus, rig: _Rig) -> float:
    path = Path(rig.settings("first")["TRAINMASTER_HOME"]) / "readmodels" / "scheduler.sqlite"
    model = JobReadModel(path, bus)
    began = time.perf_counter()
    following = asyncio.create_task(model.run())
    await model.caught_up.wait()
    took = time.perf_counter() - began
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    model.close()
    return took


async def _publish_past(bus: Bus, engine: SimulatedEngine, jobs: int) -> int:
    ended = await _publish(bus, _lives(jobs - _RUNNING - _WAITING, _ENDED))
    running = list(_lives(_RUNNING, _ENDED[:4]))
    for life in running:
        engine.put(gang_id(life.job, 1), _replicas(life))
    return ended + await _publish(bus, running) + await _publish(bus, _lives(_WAITING, (_HUGE,)))


# --- synthetic jobs --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Life:
    """A job, the node it has, and its events as templates."""

    job: str
    number: int
    events: tuple[ev.Payload, ...]


def _submitted(cpu_millis: int, priority: int = 5) -> ev.Submitted:
    spec_role = {"name": "worker", "replicas": _REPLICAS, "instanceType": "cpu-small", "command": "python train.py"}
    spec = {"image": {"source": "address", "ref": "none"}, "roles": [spec_role], "priority": priority}
    resolved = ev.Resolved(cluster="main", roles=(role(cpu_millis=cpu_millis),))
    return ev.Submitted(name=_PLACEHOLDER, owner_name="ada", spec=spec, resolved=resolved, priority=priority)


def _changes(state: str) -> ev.ReplicasChanged:
    end = ev.ReplicaExit(code=0) if state == "exited" else None
    at = datetime.now(UTC)
    changes = [{"role": "worker", "index": index, "state": state, "at": at, "exit": end} for index in range(_REPLICAS)]
    return ev.ReplicasChanged.model_validate({"changes": changes})


_PLACED: Final = ev.Placed(
    cluster="main",
    roles=(ev.RolePlacement(role="worker", pool="p-public", nodes=("n-node-0",), node_of=(0,) * _REPLICAS),),
)
_SUBMITTED: Final = _submitted(1000, priority=9)
_HUGE: Final = _submitted(1_000_000)
_ENDED: Final[tuple[ev.Payload, ...]] = (
    _submitted(1000),
    _PLACED,
    _changes("started"),
    ev.Started(),
    _changes("exited"),
    ev.AttemptEnded(reason=ev.EndReason.COMPLETED),
    ev.Succeeded(),
)


def _lives(count: int, events: tuple[ev.Payload, ...]) -> Iterator[_Life]:
    return (_Life(new_job_id(), number, events) for number in range(count))


def _replicas(life: _Life) -> list[ReplicaRef]:
    return [ReplicaRef(life.job, 1, "worker", index, f"n-node-{life.number % _NODES}") for index in range(_REPLICAS)]


async def _publish(bus: Bus, lives: Iterator[_Life] | list[_Life]) -> int:
    """Put the events of these jobs into the stream, as quickly as it takes them; gives how many they were."""
    count, templates = 0, {}
    _, before = await bus.stream_identity()
    for life in lives:
        for position, payload in enumerate(life.events):
            if id(payload) not in templates:
                event = Event.of(
                    payload, job=_PLACEHOLDER, attempt=1, time=datetime.now(UTC), owner="u-ada", project="default",
                    part=str(position) if payload.KIND == "obs" else "",
                )  # fmt: skip
                templates[id(payload)] = (subject_of(event), encode(event))
            subject, body = templates[id(payload)]
            body = body.replace(_PLACEHOLDER.encode(), life.job.encode())
            if payload is _PLACED:
                body = body.replace(b"n-node-0", f"n-node-{life.number % _NODES}".encode())
            await bus.client.publish(subject.replace(_PLACEHOLDER, life.job), body)
            count += 1
            if count % _FLUSH_EVERY == 0:
                await _stored(bus, before + count)
    await _stored(bus, before + count)
    return count


async def _stored(bus: Bus, sequence: int) -> None:
    """Return when the stream has come so far."""
    while (await bus.stream_identity())[1] < sequence:
        await asyncio.sleep(0.005)


# --- take-over -------------------------------------------------------------------------------------------------------


async def _takeovers(rig: _Rig) -> list[Row]:
    shutil.rmtree(rig.nats.store)
    rig.nats.start()
    bus = await rig.nats.bus()
    await provision(bus.js)
    progress(f"{_TAKEOVERS} times, a scheduler is killed and another one takes over")
    killed = [await _takeover(rig, bus, number, signal.SIGKILL) for number in range(_TAKEOVERS)]
    progress(f"{_TAKEOVERS} times, a scheduler is halted and another one takes over")
    halted = [await _takeover(rig, bus, number, signal.SIGSTOP) for number in range(_TAKEOVERS)]
    await bus.close()
    return [
        Row("take-over after kill -9, worst", max(killed), "s", "lower", 5),
        Row("take-over after kill -9, median", statistics.median(killed), "s", "lower", 5),
        Row("take-over after SIGSTOP, worst", max(halted), "s", "lower", 5),
        Row("take-over after SIGSTOP, median", statistics.median(halted), "s", "lower", 5),
    ]


async def _takeover(rig: _Rig, bus: Bus, number: int, fate: signal.Signals) -> float:
    """From the fate of the active scheduler to the first decision of the other."""
    names = [f"{fate.name.lower()}-{number}-{name}" for name in "ab"]
    active, standby = rig.start(names[0]), None
    try:
        await _placed_one(bus)
        standby = rig.start(names[1])
        await _stands_by(rig.root / f"{names[1]}.log")
        active.send_signal(fate)
        began = time.perf_counter()
        await _placed_one(bus)
        return time.perf_counter() - began
    finally:
        for process in (active, standby):
            if process is not None:
                process.kill()
                process.wait()


async def _placed_one(bus: Bus) -> None:
    before = await bus.history.last_sequence("tm.job.*.state.placed")
    await _publish(bus, _lives(1, (_SUBMITTED,)))
    await _first_decision(bus, before)


async def _stands_by(log: Path) -> None:
    while "readmodel_caught_up" not in log.read_text():
        await asyncio.sleep(0.05)
    await asyncio.sleep(1)


if __name__ == "__main__":
    main()
