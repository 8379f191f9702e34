"""A cluster in simulated time: jobs of a trace are submitted, planned by the real planner, run, and end.

Nothing but time is simulated. Whatever happens within one minute is looked at together; while gangs wait, the planner
is also asked every ten minutes, as gangs grow older.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from benchmarks.clusters import GIB, MODEL, POOL, START
from benchmarks.traces import TraceJob
from services.scheduler.domain.gang import Gang, Pool, QueuePolicy, RoleAsk
from services.scheduler.domain.nodes import Device, Node, Request
from services.scheduler.domain.planning.plan import plan
from services.scheduler.domain.planning.state import State
from services.scheduler.domain.tenure import running_of_gang
from shared.node_labels import LEAF_LABEL, SPINE_LABEL

_STEP_S: Final = 60.0
_TICK_S: Final = 600.0
_LEAF: Final = 16


@dataclass(frozen=True, slots=True)
class Machine:
    """What every node has."""

    gpus: int = 8
    cpus: int = 128
    memory_gib: int = 1024


@dataclass(frozen=True, slots=True)
class Run:
    """How one job fared."""

    gpus: int
    wait_s: float


@dataclass(slots=True)
class Outcome:
    """What became of a trace: the waits of all jobs, and shares of all GPUs over the time of submissions."""

    runs: list[Run] = field(default_factory=list)
    refused: int = 0
    used: float = 0.0
    scattered: float = 0.0
    cycles: int = 0


class Simulation:
    """One cluster under one policy."""

    def __init__(self, nodes: int, machine: Machine, policy: QueuePolicy) -> None:
        self._machine = machine
        self._nodes = nodes
        self._state = State((_node(number, machine) for number in range(nodes)), {POOL: Pool(POOL, "main", policy)})
        self._gangs: dict[str, Gang] = {}
        self._jobs: dict[str, TraceJob] = {}
        self._submissions: list[tuple[float, str]] = []
        self._ends: list[tuple[float, str]] = []
        self._outcome = Outcome()

    def run(self, jobs: Sequence[TraceJob], limits_s: Sequence[float | None]) -> Outcome:
        """Replay these jobs, each with the time limit that it was submitted with."""
        for number, (job, limit_s) in enumerate(zip(jobs, limits_s, strict=True), start=1):
            self._take(number, job, limit_s)
        self._submissions.sort(reverse=True)
        until_s = max((job.submit_s for job in jobs), default=0.0)
        now_s = 0.0
        while (next_s := self._next_s(now_s)) is not None:
            self._measure(min(next_s, until_s) - min(now_s, until_s))
            now_s = next_s
            self._step(now_s)
        self._outcome.used /= max(until_s, 1)
        self._outcome.scattered /= max(until_s, 1)
        return self._outcome

    def _take(self, number: int, job: TraceJob, limit_s: float | None) -> None:
        gang = _gang(number, job, self._machine, limit_s)
        if gang is None or gang.roles[0].replicas > self._nodes:
            self._outcome.refused += 1
            return
        self._gangs[gang.job], self._jobs[gang.job] = gang, job
        self._submissions.append((job.submit_s, gang.job))

    def _next_s(self, now_s: float) -> float | None:
        """The next minute in which there is something to do."""
        times = [self._ends[0][0]] if self._ends else []
        times += [self._submissions[-1][0]] if self._submissions else []
        if not times:
            return None
        times += [now_s + _TICK_S] if len(self._state.queue) else []
        return max(math.ceil(min(times) / _STEP_S) * _STEP_S, now_s)

    def _step(self, now_s: float) -> None:
        now = START + timedelta(seconds=now_s)
        while self._ends and self._ends[0][0] <= now_s:
            self._state.release(heapq.heappop(self._ends)[1])
        while self._submissions and self._submissions[-1][0] <= now_s:
            self._state.wait(self._gangs[self._submissions.pop()[1]])
        decided = plan(self._state.snapshot(), now)
        self._state.note(decided)
        self._outcome.cycles += 1
        for start in decided.starts:
            self._state.wait_no_more(start.gang.job)
            self._state.hold(running_of_gang(start.gang, now), start.seats)
            job = self._jobs[start.gang.job]
            heapq.heappush(self._ends, (now_s + job.duration_s, start.gang.job))
            self._outcome.runs.append(Run(job.gpus, max(now_s - job.submit_s, 0.0)))

    def _measure(self, passed_s: float) -> None:
        """Count what is used, and what is free on nodes that are not wholly free."""
        columns = self._state.ledger.columns
        free = columns.free_gpus("")
        total = max(int(columns.layout.gpus.sum()), 1)
        self._outcome.used += passed_s * (total - int(free.sum())) / total
        self._outcome.scattered += passed_s * int(free[free < columns.layout.gpus].sum()) / total


def _gang(number: int, job: TraceJob, machine: Machine, limit_s: float | None) -> Gang | None:
    """The job on as few nodes as hold it; None where these machines do not have what it asks for."""
    if job.gpus and not machine.gpus:
        return None
    memory = machine.memory_gib * GIB
    replicas = max(
        math.ceil(job.gpus / machine.gpus) if job.gpus else 1,
        math.ceil(job.cpus / machine.cpus),
        math.ceil(job.memory_bytes / memory),
        1,
    )
    request = Request(
        cpu_m=max(math.ceil(1000 * job.cpus / replicas), 1),
        memory_bytes=max(math.ceil(job.memory_bytes / replicas), 1),
        gpus=math.ceil(job.gpus / replicas),
        gpu_model=MODEL if job.gpus else "",
    )
    since = START + timedelta(seconds=job.submit_s)
    role = RoleAsk("worker", replicas, POOL, request)
    return Gang(f"tj-{number}", 1, 5, number, (role,), owner=job.user, since=since, longest_s=limit_s)


def _node(number: int, machine: Machine) -> Node:
    labels = {LEAF_LABEL: f"{number // _LEAF:04}", SPINE_LABEL: f"{number // (_LEAF * _LEAF):03}"}
    devices = tuple(Device(f"gpu-{index}", MODEL) for index in range(machine.gpus))
    cpu_m, memory_bytes = 1000 * machine.cpus, machine.memory_gib * GIB
    return Node(f"n-{number:05}", f"node-{number:05}", "main", cpu_m, memory_bytes, devices, labels)
